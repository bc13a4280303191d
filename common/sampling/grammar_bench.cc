// Time of one token of an output with a form: the tokens that may come are found, the others'
// logits set to -infinity, the token is read. `grammar_bench MODEL [flags of Google Benchmark]`,
// with a model file or a folder that has a tokenizer.json.

#include <benchmark/benchmark.h>

#include <iostream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/grammar/grammar.h"
#include "common/grammar/matcher.h"
#include "common/sampling/row_ops.h"

namespace baton::sampling {
namespace {

using grammar::Kind;
using grammar::Recognizer;
using grammar::Source;
using grammar::VocabularyTrie;

struct Form {
  std::string name;
  Source source;
  std::string text;  // of the form
};

std::vector<Form> forms() {
  const std::string schema = R"({"type": "object", "additionalProperties": false,
    "required": ["name", "age", "tags"], "properties": {"name": {"type": "string"},
    "age": {"type": "integer"}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}}}})";
  const std::string object = R"({"name": "Ada Lovelace, Countess", "age": 36, "tags": ["red"]})";
  return {
      {"json_object", {Kind::kJsonObject, {}}, R"({"a": [1, 2.5, {"b": "some text"}], "c": null})"},
      {"json_schema", {Kind::kJsonSchema, {schema}}, object},
      {"regex", {Kind::kRegex, {"[a-z]+@[a-z]+\\.(com|org)"}}, "somebody@example.org"},
      {"choice", {Kind::kChoice, {"positive", "negative", "neutral"}}, "negative"},
  };
}

// The longest tokens that make up the text.
std::vector<TokenId> cut(const VocabularyTrie& vocabulary, std::string_view text) {
  std::vector<TokenId> out;
  while (!text.empty()) {
    TokenId best = -1;
    size_t longest = 0;
    for (TokenId id = 0; id < vocabulary.vocab_size(); ++id) {
      const std::string_view bytes = vocabulary.bytes_of(id);
      if (bytes.size() > longest && text.starts_with(bytes)) {
        best = id;
        longest = bytes.size();
      }
    }
    BATON_CHECK(best >= 0, "the vocabulary cannot write the text");
    out.push_back(best);
    text.remove_prefix(longest);
  }
  return out;
}

void write(const std::shared_ptr<Recognizer>& recognizer, const std::vector<TokenId>& tokens,
           std::vector<float>& logits) {
  const RowOps& ops = row_ops(device::available_isas().back());
  grammar::Matcher matcher(recognizer);
  for (const TokenId token : tokens) {
    const auto allowed = matcher.allowed();
    BATON_CHECK(allowed.ok(), "no token may come");
    ops.keep(logits.data(), static_cast<int>(logits.size()), (*allowed)->words.data());
    BATON_CHECK(matcher.accept(token).ok(), "the text is not of the form");
  }
  benchmark::DoNotOptimize(logits.data());
}

void count_tokens(benchmark::State& state, size_t tokens) {
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(tokens),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Every place was seen before.
void warm(benchmark::State& state, const std::shared_ptr<const VocabularyTrie>& vocabulary,
          const Form& form) {
  const auto recognizer = std::make_shared<Recognizer>(*grammar::compile(form.source), vocabulary);
  const std::vector<TokenId> tokens = cut(*vocabulary, form.text);
  std::vector<float> logits(static_cast<size_t>(vocabulary->vocab_size()));
  write(recognizer, tokens, logits);
  for (auto step : state) {
    write(recognizer, tokens, logits);
  }
  count_tokens(state, tokens.size());
}

// The first request with this form, compiling it included.
void cold(benchmark::State& state, const std::shared_ptr<const VocabularyTrie>& vocabulary,
          const Form& form) {
  const std::vector<TokenId> tokens = cut(*vocabulary, form.text);
  std::vector<float> logits(static_cast<size_t>(vocabulary->vocab_size()));
  for (auto step : state) {
    write(std::make_shared<Recognizer>(*grammar::compile(form.source), vocabulary), tokens, logits);
  }
  count_tokens(state, tokens.size());
}

}  // namespace
}  // namespace baton::sampling

int main(int argc, char** argv) {
  using namespace baton::sampling;
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::cerr << "usage: grammar_bench MODEL [flags of Google Benchmark]\n";
    return 2;
  }
  const auto vocabulary = baton::grammar::vocabulary_of_model(argv[1])();
  if (!vocabulary.ok()) {
    std::cerr << vocabulary.status().to_string() << "\n";
    return 2;
  }
  for (const Form& form : forms()) {
    const auto add = [&](const std::string& name, auto run) {
      benchmark::RegisterBenchmark((name + "/" + form.name).c_str(), [=](benchmark::State& state) {
        run(state, *vocabulary, form);
      })->Unit(benchmark::kMicrosecond);
    };
    add("warm", warm);
    add("cold", cold);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
