#include "router/tool_calls/template_traits.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace baton::router {
namespace {

std::string source_of(const std::string& name) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/tests/data/chat_template/templates/" + name +
                     ".jinja");
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TemplateTraits traits(const std::string& source) {
  const Result<chat_template::ChatTemplate> chat = chat_template::ChatTemplate::parse(source);
  EXPECT_TRUE(chat.ok()) << chat.status().to_string();
  return traits_of(*chat, "<s>", "</s>");
}

TEST(TemplateTraitsTest, SeesWhatTemplatesOfModelsDo) {
  const TemplateTraits qwen = traits(source_of("qwen3"));
  EXPECT_TRUE(qwen.has_tools);
  EXPECT_FALSE(qwen.arguments_as_text);
  EXPECT_TRUE(qwen.has_system);
  EXPECT_FALSE(qwen.has_developer);
  EXPECT_EQ(call_form_in(source_of("qwen3")), CallForm::kHermes);
  const TemplateTraits smol = traits(source_of("smollm2"));
  EXPECT_FALSE(smol.has_tools);
  EXPECT_TRUE(smol.has_system);
  EXPECT_TRUE(smol.has_developer);
  EXPECT_EQ(call_form_in(source_of("smollm2")), std::nullopt);
  EXPECT_FALSE(traits(source_of("gemma3")).has_tools);
}

TEST(TemplateTraitsTest, KnowsTheFamilies) {
  struct Row {
    const char* name;
    bool tools, short_ids, system;
    std::optional<CallForm> form;
  };
  const Row rows[] = {
      {"qwen2_5", true, false, true, CallForm::kHermes},
      {"qwen3_coder", true, false, true, std::nullopt},
      {"smollm3", false, false, true, std::nullopt},
      {"mistral_v1", false, false, true, std::nullopt},
      {"mistral_v3", true, true, true, CallForm::kMistral},
      {"mistral_nemo", true, true, true, CallForm::kMistral},
      {"deepseek_r1", false, false, true, std::nullopt},
      {"llama2_like", false, false, true, std::nullopt},
      {"llama3_tools_like", true, false, true, CallForm::kLlama3},
      {"gemma2_like", false, false, false, std::nullopt},
      {"hermes_like", true, false, true, CallForm::kHermes},
  };
  for (const Row& row : rows) {
    const TemplateTraits seen = traits(source_of(row.name));
    EXPECT_EQ(seen.has_tools, row.tools) << row.name;
    EXPECT_EQ(seen.short_ids, row.short_ids) << row.name;
    EXPECT_EQ(seen.has_system, row.system) << row.name;
    EXPECT_FALSE(seen.arguments_as_text) << row.name;
    EXPECT_EQ(seen.single_call, std::string_view(row.name) == "llama3_tools_like") << row.name;
    EXPECT_EQ(call_form_in(source_of(row.name)), row.form) << row.name;
  }
}

TEST(TemplateTraitsTest, SeesTheFormOfArgumentsAndIds) {
  const std::string tools = "{% for t in tools %}{{ t|tojson }}{% endfor %}";
  const auto calls = [&](const std::string& arguments, const std::string& check = "") {
    return traits(tools +
                  "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}" +
                  check + arguments + "{% endfor %}{% endfor %}");
  };
  const TemplateTraits object = calls("{{ c.function.arguments|tojson }}");
  EXPECT_TRUE(object.has_tools);
  EXPECT_FALSE(object.arguments_as_text);
  const TemplateTraits text = calls("{{ c.function.arguments + '' }}");
  EXPECT_TRUE(text.has_tools);
  EXPECT_TRUE(text.arguments_as_text);
  const TemplateTraits own =
      calls("{% for k, v in c.function.arguments|items %}<{{ k }}>{% endfor %}");
  EXPECT_TRUE(own.has_tools);
  EXPECT_FALSE(own.arguments_as_text);
  const TemplateTraits ids =
      calls("{{ c.function.arguments|tojson }}",
            "{% if c.id|length != 9 %}{{ raise_exception('id') }}{% endif %}");
  EXPECT_TRUE(ids.has_tools);
  EXPECT_TRUE(ids.short_ids);
  // Prints no calls, or no tools.
  EXPECT_FALSE(calls("").has_tools);
  EXPECT_FALSE(traits("{% for m in messages %}{{ m|tojson }}{% endfor %}").has_tools);
}

TEST(TemplateTraitsTest, SeesFormsInTheSource) {
  EXPECT_EQ(call_form_in("x [TOOL_CALLS] y"), CallForm::kMistral);
  EXPECT_EQ(call_form_in("<|python_tag|>"), CallForm::kLlama3);
  EXPECT_EQ(call_form_in("<tool_call>"), CallForm::kHermes);
  EXPECT_EQ(call_form_in("<tool_call><function=f><parameter=p>"), std::nullopt);
  EXPECT_EQ(call_form_in(""), std::nullopt);
}

TEST(TemplateTraitsTest, NothingIsFoundInATemplateThatRefusesAll) {
  const TemplateTraits none = traits("{{ raise_exception('no') }}");
  EXPECT_FALSE(none.has_tools);
  EXPECT_FALSE(none.has_system);
}

}  // namespace
}  // namespace baton::router
