#include "common/tokenizer/chat_template/chat_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/tokenizer/chat_template/value_json.h"

namespace baton::chat_template {
namespace {

const std::string kData = std::string(BATON_SOURCE_DIR) + "/tests/data/chat_template/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Value to_value(const boost::json::value& json) {
  Result<Value> value = value_from_json(json);
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *value : Value::none();
}

RenderInput to_input(const boost::json::object& given, int64_t now) {
  RenderInput input;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = std::chrono::sys_seconds(std::chrono::seconds(now));
  input.messages = *make_list({});
  for (const auto& [key, json] : given) {
    if (key == "messages") {
      input.messages = to_value(json);
    } else if (key == "tools") {
      input.tools = to_value(json);
    } else if (key == "add_generation_prompt") {
      input.add_generation_prompt = json.as_bool();
    } else {
      input.extra.emplace_back(key, to_value(json));
    }
  }
  return input;
}

// "" when ours and jinja2's result agree, else what differs.
std::string compare_case(const boost::json::object& test, const std::string& source, int64_t now) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  const Result<std::string> output =
      parsed.ok() ? parsed->render(to_input(test.at("input").as_object(), now)) : parsed.status();
  if (const auto* expected = test.if_contains("output")) {
    if (!output.ok()) {
      return "failed: " + output.status().to_string();
    }
    return *output == std::string_view(expected->as_string())
               ? ""
               : "gave    " + boost::json::serialize(boost::json::value(*output)) + "\nexpected " +
                     boost::json::serialize(*expected);
  }
  if (output.ok()) {
    return "should have failed, gave " + *output;
  }
  if (output.status().code() == StatusCode::kInternal) {
    return output.status().to_string();
  }
  const boost::json::value& error = test.at("error");
  if (error.is_string() &&
      !output.status().message().ends_with(std::string_view(error.as_string()))) {
    return "message " + output.status().to_string() + "\nexpected " + boost::json::serialize(error);
  }
  return "";
}

TEST(ChatTemplateTest, EqualsJinja2OnEveryRecordedCase) {
  const boost::json::value file = boost::json::parse(read_file(kData + "cases.json"));
  const int64_t now = file.at("now").as_int64();
  int models = 0;
  for (const boost::json::value& entry : file.at("cases").as_array()) {
    const boost::json::object& test = entry.as_object();
    const auto* name = test.if_contains("template");
    const std::string source =
        name ? read_file(kData + "templates/" + std::string(name->as_string()) + ".jinja")
             : std::string(test.at("source").as_string());
    models += name ? 1 : 0;
    const std::string difference = compare_case(test, source, now);
    EXPECT_EQ(difference, "") << test.at("name").as_string() << ": " << (name ? "" : source);
  }
  EXPECT_GE(models, 150);
}

TEST(ChatTemplateTest, EqualsJinja2ForEveryFamilyOfModels) {
  const boost::json::value file = boost::json::parse(read_file(kData + "families.json"));
  const int64_t now = file.at("now").as_int64();
  int outputs = 0;
  int refusals = 0;
  for (const boost::json::value& entry : file.at("cases").as_array()) {
    boost::json::object test = entry.as_object();
    const std::string name(test.at("template").as_string());
    const std::string conversation(test.at("conversation").as_string());
    test["input"] = file.at("conversations").at(conversation);
    (test.contains("output") ? outputs : refusals) += 1;
    EXPECT_EQ(compare_case(test, read_file(kData + "templates/" + name + ".jinja"), now), "")
        << name << " " << conversation;
  }
  EXPECT_GE(file.at("conversations").as_object().size(), 30);
  EXPECT_GE(outputs, 250);
  EXPECT_GE(refusals, 30);
}

Result<std::string> render(std::string_view source, const Limits& limits = {}) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) {
    return parsed.status();
  }
  RenderInput input;
  input.messages = *make_list({});
  return parsed->render(input);
}

TEST(ChatTemplateTest, GivesTheTemplatesOwnMessageWhenItRaises) {
  EXPECT_EQ(render("{{ raise_exception('roles must alternate') }}").status(),
            invalid_argument("roles must alternate"));
}

TEST(ChatTemplateTest, RefusesByNameAndLineWhatItDoesNotSupport) {
  EXPECT_EQ(render("a\n{% include 'x' %}").status(),
            unsupported("chat template line 2: the tag 'include' is not supported"));
  EXPECT_EQ(render("\n\n{{ x | urlize }}").status(),
            unsupported("chat template line 3: the filter 'urlize' is not supported"));
  EXPECT_EQ(render("{{ x is escaped }}").status(),
            unsupported("chat template line 1: the test 'escaped' is not supported"));
  EXPECT_EQ(render("{% for x in [] recursive %}{% endfor %}").status(),
            unsupported("chat template line 1: a recursive loop is not supported"));
  EXPECT_EQ(render("{{ 'x'.zfill(3) }}").status(),
            unsupported("chat template: the method 'zfill' of str is not supported"));
  EXPECT_EQ(render("{{ '%s' % 1 }}").status(), unsupported("chat template: formatting with %"));
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }}").status().code(), StatusCode::kUnsupported);
}

TEST(ChatTemplateTest, NamesTheLineOfBrokenSyntax) {
  EXPECT_EQ(render("a\nb\n{% if x %}").status(),
            invalid_argument("chat template line 3: unexpected end of template, expected 'endif'"));
  EXPECT_EQ(render("{{ 1 + }}").status(),
            invalid_argument("chat template line 1: unexpected 'end of print statement'"));
  EXPECT_EQ(render("\xff").status(), invalid_argument("chat template: not valid UTF-8"));
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

TEST(ChatTemplateTest, RefusesHostileTemplatesWithoutCrashOrHang) {
  Limits limits;
  limits.units = uint64_t{16} << 20;
  const std::string nests[] = {
      "{{ " + repeated("(", 100'000) + " }}",
      "{{ " + repeated("[", 100'000) + repeated("]", 100'000) + " }}",
      "{{ " + repeated("-", 100'000) + "1 }}",
      "{{ " + repeated("not ", 100'000) + "1 }}",
      "{{ 1" + repeated("+1", 100'000) + " }}",
      "{{ x" + repeated(".a", 100'000) + " }}",
      "{{ x" + repeated("|trim", 100'000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 100'000) + " }}",
      repeated("{% if 1 %}", 100'000),
      repeated("{% for x in [1] %}", 100'000),
      "{% for " + repeated("(", 100'000) + " %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(a) %}{{ f(a ~ a) }}{% endmacro %}{{ f('xxxxxxxx') }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
      "{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x == ns.x|tojson }}{{ ns.x|tojson }}",
      "{% set ns = namespace(x=1) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ 'x' * 9999999999 }}",
      "{{ [1] * 9223372036854775807 }}",
      "{{ 'aaaa'|replace('', 'x' * 1000000) |replace('x', 'y' * 1000000) }}",
      "{% set s = 'a' * 1000000 %}{{ (s ~ 'b') in (s ~ s) }}",
      "{{ range(100000)|map('string')|join('y' * 10000) }}",
      "{{ ('x' * 100000)|list|batch(1)|list|tojson(indent=1000) }}",
      "{{ 'x'|indent(99999999) }}",
  };
  for (const std::string& source : nests) {
    const Result<std::string> output = render(source, limits);
    EXPECT_FALSE(output.ok()) << source.substr(0, 100);
    EXPECT_NE(output.status().code(), StatusCode::kInternal);
  }
}

TEST(ChatTemplateTest, BoundsTemplateAndOutput) {
  Limits limits;
  limits.template_bytes = 10;
  EXPECT_EQ(render("12345678901", limits).status(),
            resource_exhausted("chat template: 11 bytes, more than 10"));
  limits.output_bytes = 4;
  EXPECT_EQ(*render("1234", limits), "1234");
  limits.template_bytes = 100;
  EXPECT_EQ(render("{{ 12 }}345", limits).status(),
            resource_exhausted("chat template: the output is larger than is allowed"));
}

TEST(ChatTemplateTest, FreesNamespacesThatHoldThemselves) {
  EXPECT_EQ(*render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns, loop] %}"
                    "{% macro m() %}x{% endmacro %}{% set ns.m = m %}{{ ns.me.me.m() }}"),
            "x");
}

TEST(ChatTemplateTest, ExtraNamesWinOverTheUsualOnes) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse("{{ add_generation_prompt }}{{ k }}");
  ASSERT_TRUE(parsed.ok());
  RenderInput input;
  input.extra = {{"add_generation_prompt", Value::boolean(false)}, {"k", Value::integer(3)}};
  EXPECT_EQ(*parsed->render(input), "False3");
}

TEST(ChatTemplateTest, RendersOnManyThreadsAtOnce) {
  const boost::json::value messages = boost::json::parse(
      R"([{"role": "user", "content": "hi"}, {"role": "user", "content": "x"}])");
  const Result<ChatTemplate> parsed =
      ChatTemplate::parse(read_file(kData + "templates/qwen3.jinja"));
  ASSERT_TRUE(parsed.ok());
  std::vector<std::string> outputs(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& output : outputs) {
      threads.emplace_back([&] {
        RenderInput input;
        input.messages = to_value(messages);
        for (int i = 0; i < 50; ++i) {
          output = *parsed->render(input);
        }
      });
    }
  }
  for (const std::string& output : outputs) {
    EXPECT_EQ(output,
              "<|im_start|>user\nhi<|im_end|>\n<|im_start|>user\nx<|im_end|>\n"
              "<|im_start|>assistant\n");
  }
}

}  // namespace
}  // namespace baton::chat_template
