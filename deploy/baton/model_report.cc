#include "deploy/baton/model_report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include <boost/json.hpp>

#include "common/base/clock.h"
#include "common/config/config.h"
#include "common/config/program_options.h"
#include "common/config/values.h"
#include "common/engine/step_cost.h"
#include "common/tokenizer/load_tokenizer.h"
#include "deploy/baton/engine_flags.h"
#include "deploy/baton/terminal_text.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

constexpr Duration kProbeTime = 100ms;
constexpr int kPrompt = 512;
constexpr int kContext = 256;
constexpr int kBatch = 16;

template <typename... Values>
void append(std::string& out, const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof(text), format, values...);
  out += text;
}

std::string size_text(uint64_t bytes) {
  constexpr double kKi = 1024;
  std::string out;
  const auto value = static_cast<double>(bytes);
  if (value < 10 * kKi) {
    append(out, "%" PRIu64 " B", bytes);
  } else if (value < kKi * kKi) {
    append(out, "%.1f KiB", value / kKi);
  } else if (value < kKi * kKi * kKi) {
    append(out, "%.1f MiB", value / (kKi * kKi));
  } else {
    append(out, "%.2f GiB", value / (kKi * kKi * kKi));
  }
  return out;
}

std::string_view kind_text(tokenizer::VocabularyKind kind) {
  switch (kind) {
    case tokenizer::VocabularyKind::kByteLevel:
      return "byte-level BPE";
    case tokenizer::VocabularyKind::kSentencePiece:
      return "SentencePiece BPE";
  }
  return "";
}

Result<engine::MemoryNeed> need_of(const std::string& path, engine::EngineOptions::Pool pool,
                                   uint64_t kv_bytes) {
  engine::EngineOptions options;
  options.model_path = path;
  options.pool = pool;
  options.team.cpus.resize(1);
  options.kv_bytes = kv_bytes;
  const config::Worker worker;  // what a cluster file without other words has
  options.max_batch_tokens = static_cast<int>(worker.max_chunk_tokens + worker.max_batch_sequences);
  return engine::memory_need(options);
}

Result<ModelRates> measure(const ModelReport& report) {
  EngineFlags flags;
  BATON_ASSIGN_OR_RETURN(const device::Isa isa, device::choose_isa(flags.isa));
  BATON_ASSIGN_OR_RETURN(const device::TeamOptions team, team_of(flags, false));
  BATON_ASSIGN_OR_RETURN(const model::MachineProbe probe,
                         engine::probe_peaks(team, isa, report.decode.weights, kProbeTime));
  ModelRates rates = rates_of(report.facts.description, report.prefill, report.decode, probe);
  rates.isa = device::isa_name(isa);
  BATON_ASSIGN_OR_RETURN(rates.threads, thread_count(flags));
  return rates;
}

Result<ModelReport> make_report(const ModelOptions& options) {
  const std::optional<uint64_t> kv_bytes = config::parse_size(options.kv_cache);
  if (!kv_bytes) {
    return invalid_argument("--kv-cache is '" + options.kv_cache + "'; give a size such as 2GiB");
  }
  ModelReport report;
  BATON_ASSIGN_OR_RETURN(report.facts, engine::model_facts(options.path));
  const Result<tokenizer::Tokenizer> tokenizer = tokenizer::load_tokenizer(options.path);
  if (tokenizer.ok()) {
    report.vocabulary = VocabularyFacts{.kind = std::string(kind_text(tokenizer->kind())),
                                        .tokens = tokenizer->vocab_size(),
                                        .chat_template = !tokenizer->chat_template().empty()};
  } else {
    report.facts.refused.emplace_back(tokenizer.status().message());
  }
  if (report.facts.description.layers == 0) {
    return report;
  }
  const auto rows = static_cast<uint64_t>(report.facts.description.vocab);
  if (report.vocabulary && report.vocabulary->tokens > rows) {
    report.facts.refused.push_back(
        report.facts.path + ": the vocabulary has " + std::to_string(report.vocabulary->tokens) +
        " tokens, but the embedding has " + std::to_string(rows) + " rows");
  }
  using Pool = engine::EngineOptions::Pool;
  BATON_ASSIGN_OR_RETURN(report.prefill, need_of(options.path, Pool::kPrefill, *kv_bytes));
  BATON_ASSIGN_OR_RETURN(report.decode, need_of(options.path, Pool::kDecode, *kv_bytes));
  BATON_ASSIGN_OR_RETURN(report.rates, measure(report));
  return report;
}

json::object need_json(const engine::MemoryNeed& need) {
  return {{"weights", need.weights},
          {"kv_cache", need.kv_cache},
          {"rest", need.rest},
          {"total", need.total()}};
}

// Tokens that a pool of so many bytes holds of sequences of this length.
uint64_t tokens_held(const engine::KvPerToken& kv, uint64_t pool_bytes, int length) {
  const auto tokens = static_cast<uint64_t>(length);
  const uint64_t in_window = std::min(tokens, static_cast<uint64_t>(kv.window));
  const uint64_t sequence = kv.full * tokens + kv.windows * in_window;
  return sequence == 0
             ? 0
             : static_cast<uint64_t>(static_cast<double>(pool_bytes) /
                                     static_cast<double>(sequence) * static_cast<double>(tokens));
}

json::object description_json(const ModelReport& report) {
  const model::ModelDescription& d = report.facts.description;
  const engine::KvPerToken kv = engine::kv_per_token(d);
  return {
      {"layers", d.layers},
      {"hidden", d.hidden},
      {"heads", d.heads},
      {"kv_heads", d.kv_heads},
      {"head_dim", d.head_dim},
      {"ffn", d.ffn},
      {"vocab", d.vocab},
      {"tied", d.tied},
      {"context", d.max_context},
      {"kv_bytes_per_token",
       {{"full", kv.full},
        {"windows", kv.windows},
        {"window_layers", kv.window_layers},
        {"window", kv.window}}},
      {"memory", {{"prefill", need_json(report.prefill)}, {"decode", need_json(report.decode)}}}};
}

void append_description(std::string& out, const ModelReport& report) {
  const model::ModelDescription& d = report.facts.description;
  append(out, "%-14s %d layers, hidden %d, %d heads, %d KV heads of %d, ffn %d\n", "sizes",
         d.layers, d.hidden, d.heads, d.kv_heads, d.head_dim, d.ffn);
  append(out, "%-14s %d tokens\n", "context", d.max_context);
  const engine::KvPerToken kv = engine::kv_per_token(d);
  append(out, "%-14s %s a token", "KV cache", size_text(kv.full).c_str());
  if (kv.window > 0) {
    append(out, " in %d layers; %s a token, up to %d tokens, in %d", d.layers - kv.window_layers,
           size_text(kv.windows).c_str(), kv.window, kv.window_layers);
  }
  append(out, "; %s hold %" PRIu64 " tokens\n", size_text(report.decode.kv_cache).c_str(),
         tokens_held(kv, report.decode.kv_cache, d.max_context));
  for (const auto& [name, need] :
       {std::pair("prefill", &report.prefill), std::pair("decode", &report.decode)}) {
    append(out, "%-7s %-6s %s: weights %s, KV cache %s, rest %s\n", "memory", name,
           size_text(need->total()).c_str(), size_text(need->weights).c_str(),
           size_text(need->kv_cache).c_str(), size_text(need->rest).c_str());
  }
}

void append_rates(std::string& out, const ModelRates& rates) {
  append(out, "%-14s %.1f GFLOP/s, %.1f GB/s (%d threads, %s)\n", "this machine",
         rates.probe.flops / 1e9, rates.probe.read_bytes_per_s / 1e9, rates.threads,
         rates.isa.c_str());
  append(out, "%-14s prefill %.0f tokens/s (%d), decode %.1f tokens/s a sequence, %.1f with %d\n",
         "at most", rates.prefill_per_s, rates.prompt, rates.decode_per_s, rates.decode_16_per_s,
         kBatch);
}

}  // namespace

ModelRates rates_of(const model::ModelDescription& model, const engine::MemoryNeed& prefill,
                    const engine::MemoryNeed& decode, const model::MachineProbe& probe) {
  ModelRates rates;
  rates.probe = probe;
  rates.prompt = std::min(kPrompt, model.max_context);
  rates.context = std::min(kContext, model.max_context - 1);
  const engine::KvPerToken kv = engine::kv_per_token(model);
  const double kv_bytes = static_cast<double>(kv.full) * rates.context +
                          static_cast<double>(kv.windows) * std::min(rates.context, kv.window);
  const auto seconds = [&](double flops, double bytes) {
    return engine::roofline_seconds({.flops = flops, .bytes = bytes}, probe);
  };
  rates.prefill_per_s = rates.prompt / seconds(engine::flops(model, rates.prompt, 0, 1),
                                               static_cast<double>(prefill.weights));
  const auto decode_rate = [&](int batch) {
    return batch / seconds(batch * engine::flops(model, 1, rates.context, 1),
                           static_cast<double>(decode.weights) + batch * kv_bytes);
  };
  rates.decode_per_s = decode_rate(1);
  rates.decode_16_per_s = decode_rate(kBatch);
  return rates;
}

std::string model_json(const ModelReport& report) {
  const engine::ModelFacts& facts = report.facts;
  json::object out = {{"path", facts.path},
                      {"name", facts.name},
                      {"architecture", facts.architecture},
                      {"tensors", facts.tensors},
                      {"parameters", facts.parameters},
                      {"bytes", facts.bytes}};
  json::array types;
  for (const engine::TensorTypeFacts& type : facts.types) {
    types.push_back(
        json::object{{"type", type.name}, {"tensors", type.tensors}, {"bytes", type.bytes}});
  }
  out["types"] = std::move(types);
  if (report.vocabulary) {
    out["vocabulary"] = {{"kind", report.vocabulary->kind},
                         {"tokens", report.vocabulary->tokens},
                         {"chat_template", report.vocabulary->chat_template}};
  }
  if (facts.description.layers > 0) {
    for (auto& [key, value] : description_json(report)) {
      out[key] = value;
    }
  }
  if (report.rates) {
    const ModelRates& rates = *report.rates;
    out["roofline"] = {{"flops", rates.probe.flops},
                       {"read_bytes_per_s", rates.probe.read_bytes_per_s},
                       {"isa", rates.isa},
                       {"threads", rates.threads},
                       {"prompt", rates.prompt},
                       {"prefill_tokens_per_s", rates.prefill_per_s},
                       {"context", rates.context},
                       {"decode_tokens_per_s", rates.decode_per_s},
                       {"decode_16_tokens_per_s", rates.decode_16_per_s}};
  }
  out["refused"] = json::array(facts.refused.begin(), facts.refused.end());
  return json::serialize(out);
}

std::string model_text(const ModelReport& report) {
  const engine::ModelFacts& facts = report.facts;
  std::string out;
  append(out, "%-14s ", "model");
  out += facts.name.empty() ? facts.path : one_line(facts.name);
  append(out, "\n%-14s ", "architecture");
  out += facts.architecture.empty() ? "not said" : one_line(facts.architecture);
  append(out, ", %.3g million parameters\n", static_cast<double>(facts.parameters) / 1e6);
  append(out, "%-14s %" PRIu64 ", %s:", "tensors", facts.tensors, size_text(facts.bytes).c_str());
  for (const engine::TensorTypeFacts& type : facts.types) {
    append(out, "%s %s %" PRIu64 " (%s)", out.ends_with(':') ? "" : ",", type.name.c_str(),
           type.tensors, size_text(type.bytes).c_str());
  }
  out += '\n';
  if (report.vocabulary) {
    append(out, "%-14s %s, %" PRIu64 " tokens, %s\n", "vocabulary", report.vocabulary->kind.c_str(),
           report.vocabulary->tokens,
           report.vocabulary->chat_template ? "with a chat template" : "without a chat template");
  }
  if (facts.description.layers > 0) {
    append_description(out, report);
  }
  if (report.rates) {
    append_rates(out, *report.rates);
  }
  for (const std::string& reason : facts.refused) {
    out += "refused: " + reason + "\n";
  }
  return out;
}

int run_model(const ModelOptions& options) {
  const Result<ModelReport> report = make_report(options);
  if (!report.ok()) {
    std::fprintf(stderr, "baton: %s\n", report.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s",
              options.json ? (model_json(*report) + "\n").c_str() : model_text(*report).c_str());
  return report->facts.refused.empty() ? config::kExitStopped : config::kExitCannotStart;
}

}  // namespace baton::cli
