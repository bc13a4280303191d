#include "router/tool_calls/call_grammar.h"

#include <string>
#include <utility>
#include <vector>

#include "common/grammar/grammar.h"

namespace baton::router {
namespace {

// More than a model can use; keeps one that never ends from filling the context.
constexpr int kMaxCalls = 16;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + '"';
}

// Rules that read any text up to the first `end`, and then the rule `next`: one rule a byte of
// `end` that was read. Precondition: the first byte of `end` does not come again in it.
std::string rules_until(std::string_view end, const std::string& next) {
  std::string out;
  for (size_t i = 0; i < end.size(); ++i) {
    const std::string rule = "until-" + std::to_string(i);
    const std::string after =
        i + 1 < end.size() ? "until-" + std::to_string(i + 1) : "(" + next + ")";
    out += rule + " ::= " + quoted(end.substr(i, 1)) + " " + after;
    if (i > 0) {
      out += " | " + quoted(end.substr(0, 1)) + " until-1";
    }
    out += " | [^" + std::string(1, end[0]) +
           (i > 0 ? "\\x" +
                        [&] {
                          constexpr std::string_view kDigits = "0123456789abcdef";
                          const auto c = static_cast<unsigned char>(end[i]);
                          return std::string{kDigits[c / 16], kDigits[c % 16]};
                        }()
                  : std::string()) +
           "] until-0\n";
  }
  return out;
}

// The rules `calls` and `call`; schema-N is that of the Nth callable function.
std::string call_rules(const ToolRequest& tools, const AnswerForm& form, size_t first_schema) {
  const bool llama = form.call_form == CallForm::kLlama3;
  std::string call = "call ::= " + quoted("{\"name\": \"") + " (";
  for (size_t i = 0; i < tools.callable.size(); ++i) {
    const std::string head =
        tools.callable[i].name + "\", \"" + (llama ? "parameters" : "arguments") + "\": ";
    call += (i == 0 ? "" : " | ") + quoted(head) + " schema-" + std::to_string(first_schema + i);
  }
  call += ") \"}\"";
  const std::string more =
      tools.parallel && !form.single_call ? "{0," + std::to_string(kMaxCalls - 1) + "}" : "{0,0}";
  const auto list = [&more](const std::string& begin, const std::string& item,
                            const std::string& between, const std::string& end) {
    return "calls ::= " + begin + item + " (" + quoted(between) + " " + item + ")" + more + end +
           "\n";
  };
  switch (form.call_form) {
    case CallForm::kHermes:
      return call + "\nwrapped ::= " + quoted("<tool_call>\n") + " call " +
             quoted("\n</tool_call>") + "\n" + list("", "wrapped", "\n", "");
    case CallForm::kLlama3:
      return call + "\n" + list("", "call", "; ", "");
    case CallForm::kMistral:
      return call + "\n" +
             list((form.begins_in_calls ? "" : quoted("[TOOL_CALLS]")) + " \" \"? \"[\" ", "call",
                  ", ", " \"]\"");
  }
  return call;
}

// The whole answer: reasoning, if there is any, before what the request asks for.
std::string root_rules(const AnswerForm& form, const std::string& body) {
  const std::string after = "\"\\n\"{0,2} (" + body + ")";
  if (form.begins_in_reasoning) {
    return "root ::= until-0\n" + rules_until(kThinkEnd, after);
  }
  if (form.has_reasoning) {
    return "root ::= " + body + " | " + quoted(kThinkBegin) + " until-0\n" +
           rules_until(kThinkEnd, after);
  }
  return "root ::= " + body + "\n";
}

std::string any_object() { return R"({"type":"object"})"; }

// Names the function whose schema is at fault.
Status explained(const ToolRequest& tools, const Status& whole) {
  constexpr size_t kMostTried = 32;
  if (whole.code() == StatusCode::kResourceExhausted || tools.callable.size() > kMostTried) {
    return whole;  // all of them together, or a search that would cost more than it tells
  }
  for (const Tool& tool : tools.callable) {
    const Status one = grammar::compile({grammar::Kind::kJsonSchema, {tool.schema}}).status();
    if (!one.ok()) {
      return Status(one.code(), "the parameters of function '" + tool.name +
                                    "', which may have to be called: " + one.message());
    }
  }
  return whole;
}

}  // namespace

Status restrict_to_calls(const ToolRequest& tools, const AnswerForm& form,
                         wire::SamplingSpec& sampling) {
  const auto kind = static_cast<grammar::Kind>(sampling.grammar_kind);
  const bool json = kind == grammar::Kind::kJsonObject || kind == grammar::Kind::kJsonSchema;
  if (!tools.may_call() || (!tools.must_call() && !json)) {
    return Status();
  }
  if (!json && kind != grammar::Kind::kNone) {
    return invalid_argument(
        "a call that must be made has a form of its own; the request sets "
        "another one");
  }
  grammar::Source source{grammar::Kind::kEbnfWithSchemas, {""}};
  std::string body = "calls";
  if (!tools.must_call()) {
    body = "calls | schema-1";
    source.texts.push_back(kind == grammar::Kind::kJsonObject ? any_object()
                                                              : sampling.grammar_texts[0]);
  }
  const size_t first_schema = source.texts.size();
  for (const Tool& tool : tools.callable) {
    source.texts.push_back(tool.schema);
  }
  source.texts[0] = root_rules(form, body) + call_rules(tools, form, first_schema);
  Status status = grammar::compile(source).status();
  if (!status.ok() && !tools.must_call()) {
    // Nobody asked for arguments by their schema.
    std::fill(source.texts.begin() + static_cast<ptrdiff_t>(first_schema), source.texts.end(),
              any_object());
    status = grammar::compile(source).status();
  }
  if (!status.ok()) {
    return explained(tools, status);
  }
  sampling.grammar_kind = static_cast<uint8_t>(source.kind);
  sampling.grammar_texts = std::move(source.texts);
  return Status();
}

}  // namespace baton::router
