// Bytes a second of encode and decode on one core, on the texts of the oracle cases. For the speed
// with whole published vocabularies, beside that of the `tokenizers` package, see
// tests/data/tokenizer/compare.py.

#include <benchmark/benchmark.h>

#include <string>

#include "common/base/check.h"
#include "common/tokenizer/load_tokenizer.h"
#include "common/tokenizer/test_vocabulary.h"
#include "common/tokenizer/tokenizer.h"

namespace baton::tokenizer {
namespace {

// Ordinary English: the text of the licence of this repository, twenty times.
std::string english_text() {
  std::string text;
  for (int copies = 0; copies < 20; ++copies) {
    text += read_source_file("LICENSE");
  }
  return text;
}

// All scripts, control characters and runs of the oracle cases.
std::string mixed_text() {
  const std::string file = read_test_data("cases.tsv");
  std::string text;
  for (const std::string_view line : split_at(file, '\n')) {
    text += unescape(line.substr(0, line.find('\t')));
    text += '\n';
  }
  return text;
}

void encode(benchmark::State& state, const std::string& text,
            const Tokenizer& tokenizer = smollm2_tokenizer()) {
  size_t ids = 0;
  for (auto _ : state) {
    ids = tokenizer.encode(text, {.parse_special = true}).size();
    benchmark::DoNotOptimize(ids);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(ids);
}

void bm_encode_english(benchmark::State& state) { encode(state, english_text()); }
void bm_encode_mixed(benchmark::State& state) { encode(state, mixed_text()); }
void bm_encode_one_letter(benchmark::State& state) { encode(state, std::string(1'000'000, 'a')); }

// With the tiny vocabulary NAME of tests/data/tokenizer: short tokens, so many merges.
void bm_encode_tiny(benchmark::State& state, const std::string& name) {
  const auto tokenizer =
      load_tokenizer(std::string(BATON_SOURCE_DIR) + "/tests/data/tokenizer/tiny/" + name);
  BATON_CHECK(tokenizer.ok(), tokenizer.status().to_string());
  encode(state, mixed_text(), *tokenizer);
}

void bm_decode_english(benchmark::State& state) {
  const Tokenizer tokenizer = smollm2_tokenizer();
  const auto ids = tokenizer.encode(english_text());
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer.decode(ids));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}

void bm_create(benchmark::State& state) {
  const VocabularySpec spec = smollm2_vocabulary();
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer::create(spec).ok());
  }
}

BENCHMARK(bm_encode_english)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_encode_mixed)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_encode_one_letter)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_encode_tiny, gpt4o, "gpt4o")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_encode_tiny, deepseek_v3, "deepseek_v3")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_encode_tiny, llama2, "llama2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_encode_tiny, gemma, "gemma.gguf")->Unit(benchmark::kMillisecond);
BENCHMARK(bm_decode_english)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_create)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace baton::tokenizer
