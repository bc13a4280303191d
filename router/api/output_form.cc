#include "router/api/output_form.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/grammar.h"

namespace baton::router {
namespace {

// The one grammar that a request may ask for, under the name of the field that asks.
class OutputFormReader {
 public:
  OutputFormReader(FieldReader& fields, wire::SamplingSpec& sampling)
      : fields_(fields), sampling_(sampling) {}

  void read() {
    response_format();
    take_json("guided_json", "guided_json", fields_);
    take_text("guided_regex", "guided_regex", grammar::Kind::kRegex, fields_);
    take_text("guided_grammar", "guided_grammar", grammar::Kind::kEbnf, fields_);
    take_choice("guided_choice", "guided_choice", fields_);
    if (const boost::json::value* outputs = fields_.raw("structured_outputs")) {
      if (!outputs->is_object()) {
        fields_.fail("structured_outputs", "'structured_outputs' must be an object");
        return;
      }
      FieldReader inner(outputs->get_object());
      take_json("structured_outputs.json", "json", inner);
      take_text("structured_outputs.regex", "regex", grammar::Kind::kRegex, inner);
      take_text("structured_outputs.grammar", "grammar", grammar::Kind::kEbnf, inner);
      take_choice("structured_outputs.choice", "choice", inner);
      finish_inner("structured_outputs", inner);
    }
  }

 private:
  void finish_inner(const std::string& outer, const FieldReader& inner) {
    const std::vector<std::string> unknown = inner.unknown(1);
    if (!inner.status().ok()) {
      fields_.fail(outer, inner.status().message());
    } else if (!unknown.empty()) {
      fields_.fail(outer + "." + unknown[0], "'" + outer + "." + unknown[0] + "' is not supported");
    }
  }

  void response_format() {
    const boost::json::value* format = fields_.raw("response_format");
    if (format == nullptr) {
      return;
    }
    const std::string field = "response_format";
    if (!format->is_object()) {
      fields_.fail(field, "'response_format' must be an object with a 'type'");
      return;
    }
    FieldReader inner(format->get_object());
    const std::string type = inner.text("type").value_or("");
    if (type == "json_object") {
      // llama.cpp's form has a schema here.
      const boost::json::value* schema = inner.raw("schema");
      if (schema != nullptr) {
        take_schema(field + ".schema", *schema);
      } else {
        set(field, grammar::Kind::kJsonObject, {});
      }
    } else if (type == "json_schema") {
      json_schema(inner);
    } else if (type != "text") {
      fields_.fail(field, "'response_format.type' must be text, json_object or json_schema");
    }
    finish_inner(field, inner);
  }

  void json_schema(FieldReader& format) {
    const std::string field = "response_format.json_schema";
    const boost::json::value* wrapper = format.raw("json_schema");
    const boost::json::value* schema = wrapper != nullptr && wrapper->is_object()
                                           ? wrapper->get_object().if_contains("schema")
                                           : nullptr;
    if (schema == nullptr || !schema->is_object()) {
      fields_.fail(field,
                   "'response_format.json_schema' must be an object with a 'schema', which "
                   "is a JSON schema");
      return;
    }
    take_schema(field + ".schema", *schema);
  }

  void take_json(const std::string& field, std::string_view name, FieldReader& from) {
    if (const boost::json::value* value = from.raw(name)) {
      take_schema(field, *value);
    }
  }

  // A schema as JSON, or as a string that holds it.
  void take_schema(const std::string& field, const boost::json::value& schema) {
    if (schema.is_string()) {
      set(field, grammar::Kind::kJsonSchema, {std::string(schema.get_string())});
    } else if (schema.is_object()) {
      set(field, grammar::Kind::kJsonSchema, {boost::json::serialize(schema)});
    } else {
      fields_.fail(field, "'" + field + "' must be a JSON schema");
    }
  }

  void take_text(const std::string& field, std::string_view name, grammar::Kind kind,
                 FieldReader& from) {
    if (const auto text = from.text(name)) {
      set(field, kind, {*text});
    }
  }

  void take_choice(const std::string& field, std::string_view name, FieldReader& from) {
    if (from.raw(name) == nullptr) {
      return;
    }
    std::vector<std::string> texts = from.texts(name, kMaxGrammarChoices);
    if (std::any_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); })) {
      fields_.fail(field, "'" + field + "' must not hold an empty string");
    } else if (texts.empty()) {
      fields_.fail(field, "'" + field + "' must be a list with at least one string");
    } else {
      set(field, grammar::Kind::kChoice, std::move(texts));
    }
  }

  void set(const std::string& field, grammar::Kind kind, std::vector<std::string> texts) {
    if (sampling_.grammar_kind != 0) {
      fields_.fail(field, "'" + field + "' and another field both set the form of the output");
      return;
    }
    // Workers compile it again; here its faults become the client's.
    const Status status = grammar::compile({kind, texts}).status();
    if (!status.ok()) {
      fields_.fail(field, "'" + field + "': " + status.message());
      return;
    }
    sampling_.grammar_kind = static_cast<uint8_t>(kind);
    sampling_.grammar_texts = std::move(texts);
  }

  static constexpr size_t kMaxGrammarChoices = 4096;

  FieldReader& fields_;
  wire::SamplingSpec& sampling_;
};

}  // namespace

void read_output_form(FieldReader& fields, wire::SamplingSpec& sampling) {
  OutputFormReader(fields, sampling).read();
}

}  // namespace baton::router
