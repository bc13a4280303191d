// The table of fields in docs/api.md against the code that reads them.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "router/api/request.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

struct Row {
  std::string paths;  // "C", "X" or "both"
  std::string status;
  bool on(bool chat) const { return paths == "both" || paths == (chat ? "X" : "C"); }
};

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class FieldTableTest : public testing::Test {
 protected:
  FieldTableTest() {
    const std::string text = file_text("docs/api.md");
    const size_t begin = text.find("<!-- fields -->");
    const std::string table = text.substr(begin, text.find("<!-- end -->", begin) - begin);
    static const std::regex row(R"(\n\| `(\w+)` \| (C|X|both) \| (\w+) \|)");
    for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) {
      EXPECT_TRUE(table_.emplace((*it)[1], Row{(*it)[2], (*it)[3]}).second) << (*it)[1];
    }
  }
  // Of a request that is right but for one more field.
  Parsed<ApiRequest> parse(bool chat, const std::string& field, const std::string& value) const {
    const std::string base =
        chat ? R"("messages":[{"role":"user","content":"a"}])" : R"("prompt":"a")";
    const bool required = field == (chat ? "messages" : "prompt");
    const boost::json::value body =
        json(required ? "{" + base + "}" : "{" + base + ",\"" + field + "\":" + value + "}");
    return chat ? parse_chat(body.get_object(), model_)
                : parse_completion(body.get_object(), model_);
  }
  bool known(bool chat, const std::string& field) const {
    const std::vector<std::string> ignored = parse(chat, field, "null").value.ignored;
    return std::find(ignored.begin(), ignored.end(), field) == ignored.end();
  }

  std::map<std::string, Row> table_;
  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  const ServedModel model_{"tiny", &tokenizer_};
};

TEST_F(FieldTableTest, EveryFieldOfTheTableIsKnownOnItsPaths) {
  EXPECT_GT(table_.size(), 50u);
  for (const auto& [name, row] : table_) {
    for (const bool chat : {false, true}) {
      EXPECT_EQ(known(chat, name), row.on(chat)) << name << (chat ? " in chats" : "");
    }
  }
}

TEST_F(FieldTableTest, IgnoredFieldsAreAcceptedAndRefusedOnesNamed) {
  for (const auto& [name, row] : table_) {
    const bool chat = row.paths == "X";
    if (row.status == "ignored") {
      EXPECT_TRUE(parse(chat, name, "1").ok()) << name;
    } else if (row.status == "refused") {
      EXPECT_EQ(parse(chat, name, "true").fault.param, name);
    } else {
      EXPECT_EQ(row.status, "supported") << name;
    }
  }
}

// Every word in the sources that the parsers take for a field.
TEST_F(FieldTableTest, TheTableHasEveryFieldThatTheCodeReads) {
  static const std::regex literal("\"([a-z_]+)\"");
  std::set<std::string> words;
  for (const std::string path :
       {"router/api/request.cc", "router/api/sampling_fields.cc", "router/api/prompt_fields.cc",
        "router/api/output_form.cc", "router/tool_calls/tools.cc"}) {
    const std::string text = file_text(path);
    for (std::sregex_iterator it(text.begin(), text.end(), literal), end; it != end; ++it) {
      words.insert((*it)[1]);
    }
  }
  for (const std::string& word : words) {
    for (const bool chat : {false, true}) {
      if (known(chat, word)) {
        EXPECT_TRUE(table_.contains(word) && table_[word].on(chat))
            << "docs/api.md lacks " << word << (chat ? " of chats" : " of completions");
      }
    }
  }
}

}  // namespace
}  // namespace baton::router
