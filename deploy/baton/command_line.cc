// The one file of the program that sees CLI11.
#include "deploy/baton/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "common/config/program_options.h"

namespace baton::cli {
namespace {

std::string instruction_sets() {
  std::string names;
  for (const device::Isa isa : device::available_isas()) {
    names += (names.empty() ? "" : " ") + std::string(device::isa_name(isa));
  }
  return names;
}

// Where the flags of each command go until it is known which one was given.
struct AllOptions {
  UpOptions up;
  StatusOptions status;
  ChatOptions chat;
  ExplainOptions explain;
  ModelOptions model;
  GenerateOptions generate;
  QualityOptions quality;
  EngineBenchOptions engine_bench;
  TransferBenchOptions transfer_bench;
  FaultBenchOptions fault_bench;
  serve_bench::ServeBenchOptions serve_bench;
};

void add_up(CLI::App& app, UpOptions& options) {
  CLI::App* up = app.add_subcommand("up", "Start a whole cluster on this machine");
  up->add_option("file", options.config_path, "Cluster file; without it one router, p0, d0")
      ->type_name("FILE");
  up->add_option("--model", options.model, "Model to serve instead of the file's")
      ->type_name("FILE");
  up->add_option("--host", options.host, "Address for HTTP")->type_name("H");
  up->add_option("--port", options.port, "Port for HTTP; 0 takes any that is free")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  up->add_option("--served-model-name", options.served_model_name, "Name of the model in the API")
      ->type_name("S");
  up->add_option("--max-model-len", options.max_model_len, "Longest context, tokens")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  up->add_option("--api-key-file", options.api_key_file,
                 "Keys that requests must bring, one a line")
      ->type_name("F");
  up->add_option("--set", options.overrides, "Override a key of the file; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  up->add_option("--ready-file", options.ready_file,
                 "Write url and processes here once requests can be answered")
      ->type_name("PATH");
  up->add_option("--kill-stuck-after", options.kill_stuck_after_s,
                 "Kill and restart a program whose /livez fails for so long; 0: never")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  up->add_option("--kill-unready-after", options.kill_unready_after_s,
                 "Kill and restart a program not ready after so long; 0: never")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  up->add_flag("--first-answer", options.first_answer,
               "When ready, ask a question and show the answer");
  up->add_flag("--once", options.once, "Stop when that is done");
  up->add_option("--log-level", options.log_level, "debug, info, warn or error")
      ->type_name("LEVEL");
  up->add_option("--log-format", options.log_format, "text or json")->type_name("FORMAT");
  up->footer(
      "Ctrl-C drains and stops; a second one stops at once.\n\nexamples:\n"
      "  baton up deploy/local-2p2d.yaml --port 8080\n"
      "  baton up --model my.gguf --set decode.*.kv_cache=2GiB");
}

// Where a server is, and how it is asked.
template <typename Options>
void add_server(CLI::App* app, Options& options, const std::string& what) {
  app->add_option("--url", options.url, what)->type_name("URL");
  app->add_option("--api-key-file", options.api_key_file, "The first key in it is used")
      ->type_name("F");
  app->add_option("--cacert", options.cacert, "Whom an https:// server is trusted by, PEM")
      ->type_name("F");
}

void add_status(CLI::App& app, StatusOptions& options) {
  CLI::App* status = app.add_subcommand("status", "Show workers, load and links of a cluster");
  status->option_defaults()->always_capture_default();
  add_server(status, options, "The router");
  status->add_flag("--json", options.json, "One JSON object");
  status
      ->add_option_function<std::optional<double>>(
          "--watch",
          [&options](const std::optional<double>& seconds) {
            constexpr double kSeconds = 2;
            options.watch_s = seconds.value_or(kSeconds);
          },
          "Ask again every SECONDS, 2 without a number")
      ->type_name("[SECONDS]")
      ->expected(0, 1)
      ->check(CLI::Range(0.1, 86'400.0));
  status->footer(
      "Ctrl-C ends --watch.\n\nexamples:\n  baton status --watch\n"
      "  baton status --url http://127.0.0.1:8080 --json");
}

void add_chat(CLI::App& app, ChatOptions& options) {
  CLI::App* chat = app.add_subcommand("chat", "Talk to a model in the terminal");
  chat->option_defaults()->always_capture_default();
  add_server(chat, options, "Any server of the OpenAI API");
  chat->add_option("--system", options.system, "Instructions for the model")->type_name("TEXT");
  chat->add_option("--model", options.model, "Without it the first that the server lists")
      ->type_name("NAME");
  chat->add_option("--max-tokens", options.max_tokens, "Longest answer")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  chat->add_option("--temperature", options.temperature, "0 is greedy")
      ->type_name("X")
      ->check(CLI::Range(0.0, 2.0));
  chat->add_option("--seed", options.seed, "Of sampling")->type_name("N");
  chat->footer(
      "Ctrl-C stops an answer, Ctrl-D leaves, /help lists commands. From a pipe each line is a\n"
      "message, and only answers are printed.\n\nexamples:\n"
      "  baton chat --system \"Answer in one sentence.\"\n"
      "  baton chat --url http://127.0.0.1:8080 --temperature 0 <questions.txt");
}

void add_explain(CLI::App& app, ExplainOptions& options) {
  CLI::App* explain =
      app.add_subcommand("explain", "Show the life of one request: decision, parts, time line");
  explain->option_defaults()->always_capture_default();
  explain->add_option("request", options.request_id, "x-request-id, or the id of the answer")
      ->type_name("REQUEST_ID")
      ->always_capture_default(false)
      ->required();
  add_server(explain, options, "The router");
  explain->add_flag("--json", options.json, "One JSON object");
  explain->footer(
      "examples:\n  baton explain chatcmpl-0123456789abcdef0123456789abcdef\n"
      "  baton explain my-request-1 --url http://127.0.0.1:8080 --json");
}

void add_model(CLI::App& app, ModelOptions& options) {
  CLI::App* model = app.add_subcommand(
      "model", "Show what a model file is, what it needs, what would be refused");
  model->option_defaults()->always_capture_default();
  model->add_option("model", options.path, "GGUF file, any part of a split one, or model folder")
      ->type_name("FILE|FOLDER")
      ->always_capture_default(false)
      ->required();
  model->add_option("--kv-cache", options.kv_cache, "KV cache of each pool")->type_name("SIZE");
  model->add_flag("--json", options.json, "One JSON object");
  model->footer(
      "Measures this machine for some tenths of a second. Exit status 1 when the model would be\n"
      "refused; every reason is printed.\n\nexamples:\n  baton model my.gguf\n"
      "  baton model Llama-3.2-1B/ --kv-cache 4GiB --json");
}

void add_engine_flags(CLI::App* command, EngineFlags& flags) {
  command->option_defaults()->always_capture_default();
  command->add_option("--model", flags.model, "GGUF file or model folder")
      ->type_name("FILE")
      ->required();
  command->add_option("--isa", flags.isa, "auto, scalar, avx2, avx512 or amx")->type_name("NAME");
  command->add_option("--numerics", flags.numerics, "invariant or fast")->type_name("NAME");
  command->add_option("--threads", flags.threads, "Compute threads; 0 = one a CPU")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command->add_option("--tensor-parallel", flags.tensor_parallel, "Ranks")
      ->type_name("T")
      ->check(CLI::Range(1, 64));
  command->add_option("--segments", flags.segments, "Reduction segments; 0 = as many as ranks")
      ->type_name("S")
      ->check(CLI::Range(0, 64));
  command->add_option("--chunk", flags.chunk, "Tokens of a prompt in one step")
      ->type_name("N")
      ->check(CLI::Range(1, 8192));
}

void add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* generate =
      app.add_subcommand("generate", "Complete a prompt in one process, without a network");
  add_engine_flags(generate, options.engine);
  CLI::Option_group* prompt = generate->add_option_group("prompt");
  prompt->add_option("--prompt", options.prompt, "Text to continue")->type_name("TEXT");
  prompt->add_option("--prompt-ids", options.prompt_ids_file, "Token ids to continue")
      ->type_name("FILE");
  prompt->require_option(1);
  generate
      ->add_option("--force-ids", options.force_ids_file,
                   "Feed these ids in place of what was sampled")
      ->type_name("FILE");
  generate
      ->add_option("--logits", options.logits_file,
                   "Write the f32 logits that each output was taken from")
      ->type_name("FILE");
  generate->add_option("--max-tokens", options.max_tokens, "Longest output")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  generate->add_flag("--ignore-eos", options.ignore_eos, "Go on after an end token");
  generate->add_option("--temperature", options.temperature, "0 is greedy")->type_name("X");
  generate->add_option("--top-p", options.top_p, "Keep the most likely tokens of this mass")
      ->type_name("X");
  generate->add_option("--top-k", options.top_k, "0 is off")->type_name("N");
  generate->add_option("--seed", options.seed, "Of sampling")->type_name("N");
  generate->add_flag("--json", options.json, "One JSON object: tokens, text, prompt_tokens");
  generate->footer(
      "examples:\n  baton generate --model m.gguf --prompt \"The capital of France is\"\n"
      "  baton generate --model m.gguf --prompt-ids p.json --force-ids f.json --logits l.f32");
}

void add_quality(CLI::App& bench, QualityOptions& options) {
  CLI::App* quality =
      bench.add_subcommand("quality", "Agreement with a recorded reference, teacher-forced");
  add_engine_flags(quality, options.engine);
  quality->add_option("--reference", options.reference, "Recorded reference, JSON")
      ->type_name("FILE")
      ->required();
  quality->add_flag("--json", options.json, "One JSON object");
  quality->footer(
      "examples:\n  baton bench quality --model m.gguf --reference r.json\n"
      "  baton bench quality --model m.gguf --reference r.json --isa avx2 --json");
}

void add_engine_bench(CLI::App& bench, EngineBenchOptions& options) {
  CLI::App* engine =
      bench.add_subcommand("engine", "Prefill and decode rates beside the machine's roofline");
  add_engine_flags(engine, options.engine);
  engine->add_option("--prompt", options.prompts, "Tokens of prompts to prefill")
      ->type_name("N,N...")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  engine->add_option("--decode-batch", options.decode_batches, "Sequences of a decode step")
      ->type_name("N,N...")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  engine->add_option("--context", options.contexts, "Tokens that each of them holds")
      ->type_name("N,N...")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  engine->add_option("--repeats", options.repeats, "Values that a median is of, at least")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  engine->add_flag("--json", options.json, "One JSON object");
  engine->footer(
      "examples:\n  baton bench engine --model m.gguf --threads 2\n"
      "  baton bench engine --model m.gguf --prompt 128,512 --decode-batch 1,16 --json");
}

void add_transfer_bench(CLI::App& bench, TransferBenchOptions& options) {
  CLI::App* transfer =
      bench.add_subcommand("transfer", "Hand-over between two processes beside memcpy");
  transfer->option_defaults()->always_capture_default();
  transfer->add_option("--transport", options.transport, "pool, ucx-posix or ucx-tcp")
      ->type_name("NAME")
      ->check(CLI::IsMember({"pool", "ucx-posix", "ucx-tcp"}));
  transfer->add_option("--pool", options.pool_mib, "MiB of KV that are pushed at a time")
      ->type_name("MIB")
      ->check(CLI::Range(1, 1 << 16));
  transfer->add_option("--repeats", options.repeats, "Values that a median is of")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  transfer->add_flag("--json", options.json, "One JSON object");
  transfer->footer(
      "examples:\n  baton bench transfer\n"
      "  baton bench transfer --transport ucx-tcp --pool 256 --json");
}

void add_fault_bench(CLI::App& bench, FaultBenchOptions& options) {
  CLI::App* faults =
      bench.add_subcommand("faults", "Kill and stop workers under load; how soon all goes on");
  faults->option_defaults()->always_capture_default();
  faults->add_option("--kill", options.faults, "Workers to kill (SIGKILL) and to stop (SIGSTOP)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  faults->add_option("--config", options.config, "Cluster file; default: 2 prefill, 2 decode")
      ->type_name("FILE");
  faults->add_option("--model", options.model, "Model to serve instead of the file's")
      ->type_name("FILE");
  faults->add_option("--transport", options.transport, "Default: ucx-posix, then ucx-tcp")
      ->type_name("NAME")
      ->check(CLI::IsMember({"pool", "ucx-posix", "ucx-tcp"}));
  faults->add_option("--seed", options.seed, "Of questions, victims and moments")->type_name("N");
  faults->add_flag("--json", options.json, "One JSON object");
  faults->footer(
      "Starts a cluster of its own. Exit status 1 when a stream was lost, a token was wrong, or a\n"
      "fault was not noticed.\n\nexamples:\n  baton bench faults\n"
      "  baton bench faults --kill 200 --json");
}

// Flags of `bench serve` that say what arrives.
void add_load(CLI::App* serve, serve_bench::ServeBenchOptions& options) {
  serve->add_option("--rate", options.rate, "Poisson arrivals, requests a second")
      ->type_name("R")
      ->check(CLI::Range(0.001, 1e6));
  serve->add_option("--trace", options.trace, "Arrivals and lengths of a file")->type_name("FILE");
  serve->add_option("--trace-scale", options.trace_scale, "Speed-up of the trace")
      ->type_name("X")
      ->check(CLI::Range(1e-6, 1e6));
  serve->add_option("--concurrency", options.concurrency, "Clients that wait for their answers")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  serve->add_option("--input", options.input, "Prompt tokens")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  serve->add_option("--output", options.output, "Output tokens")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  serve->add_option("--input-spread", options.input_spread, "Prompts vary by this share")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0));
  serve->add_option("--output-spread", options.output_spread, "Outputs vary by this share")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0));
  serve->add_option("--max-input", options.max_input, "Shortens prompts of the trace")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24));
  serve->add_option("--max-output", options.max_output, "Shortens outputs of the trace")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24));
}

// Flags of `bench serve` that say how long and against what is measured.
void add_measurement(CLI::App* serve, serve_bench::ServeBenchOptions& options) {
  serve->add_option("--slo-ttft-ms", options.slo_ttft_ms, "Limit of the time to first token")
      ->type_name("MS")
      ->check(CLI::Range(0.001, 1e9));
  serve->add_option("--slo-tpot-ms", options.slo_tpot_ms, "Limit of the mean time per token")
      ->type_name("MS")
      ->check(CLI::Range(0.001, 1e9));
  serve->add_flag("--search", options.search, "Find the highest load that meets both at 90 %");
  serve->add_option("--duration", options.duration_s, "Arrivals, or each probe; 0 = 60")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1e6));
  serve->add_option("--requests", options.requests, "No more than these; 0 = no limit")
      ->type_name("N")
      ->check(CLI::Range(0, 10'000'000));
  serve->add_option("--warmup", options.warmup, "Requests before, not counted")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  serve->add_option("--request-timeout", options.request_timeout_s, "Then a request has failed")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6));
  serve->add_option("--max-connections", options.max_connections, "Requests at once")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  serve->add_option("--seed", options.seed, "Of arrivals and lengths")->type_name("N");
}

void add_serve_bench(CLI::App& bench, serve_bench::ServeBenchOptions& options) {
  CLI::App* serve = bench.add_subcommand("serve", "Load on any OpenAI-compatible server");
  serve->option_defaults()->always_capture_default();
  add_server(serve, options, "Default: http://127.0.0.1:8000");
  serve->add_option("--endpoint", options.endpoint, "completions or chat")
      ->type_name("NAME")
      ->check(CLI::IsMember({"completions", "chat"}));
  serve->add_option("--model", options.model, "Default: the first of /v1/models")
      ->type_name("NAME");
  add_load(serve, options);
  add_measurement(serve, options);
  serve->add_flag("--json", options.json, "One JSON object");
  // Ranges and long defaults would put every flag on two lines.
  for (CLI::Option* option : serve->get_options()) {
    if (option->get_type_size_max() > 0) {
      const std::string type = option->get_type_name();
      const std::string& value = option->get_default_str();
      const bool shown = !value.empty() && value != "0" && value.size() < 12;
      option->option_text(type.substr(0, type.find(':')) + (shown ? "=" + value : ""));
    }
  }
  serve->footer(
      "examples:\n  baton bench serve --rate 4 --input 300 --output 64\n"
      "  baton bench serve --search --slo-ttft-ms 500 --slo-tpot-ms 50 --json");
}

Command command_of(const CLI::App& app, AllOptions& options) {
  const CLI::App* command = app.get_subcommands().front();
  if (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
  }
  const std::string& name = command->get_name();
  if (name == "up") {
    return options.up;
  }
  if (name == "status") {
    return options.status;
  }
  if (name == "chat") {
    return options.chat;
  }
  if (name == "explain") {
    return options.explain;
  }
  if (name == "model") {
    return options.model;
  }
  if (name == "generate") {
    return options.generate;
  }
  if (name == "quality") {
    return options.quality;
  }
  if (name == "transfer") {
    return options.transfer_bench;
  }
  if (name == "faults") {
    return options.fault_bench;
  }
  if (name == "serve") {
    return options.serve_bench;
  }
  return options.engine_bench;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv, std::ostream& out,
                               std::ostream& err) {
  CommandLine line;
  AllOptions options;
  CLI::App app("Serves language models with prefill and decode on different workers.", "baton");
  bool version = false;
  app.add_flag("--version", version, "Print version, commit, build, instruction sets");
  app.require_subcommand(0, 1);
  add_up(app, options.up);
  add_status(app, options.status);
  add_chat(app, options.chat);
  add_explain(app, options.explain);
  add_model(app, options.model);
  add_generate(app, options.generate);
  CLI::App* bench =
      app.add_subcommand("bench", "Measure: serve, quality, engine, transfer, faults");
  bench->require_subcommand(1);
  add_quality(*bench, options.quality);
  add_engine_bench(*bench, options.engine_bench);
  add_transfer_bench(*bench, options.transfer_bench);
  add_fault_bench(*bench, options.fault_bench);
  add_serve_bench(*bench, options.serve_bench);
  bench->footer(
      "baton bench NAME --help tells more.\n\nexamples:\n"
      "  baton bench serve --rate 4 --input 300 --output 64\n"
      "  baton bench engine --model m.gguf");
  app.footer(
      "baton COMMAND --help tells more.\n\nexamples:\n  baton up deploy/local.yaml\n"
      "  baton status --url http://127.0.0.1:8000");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    line.exit_status = config::kExitStopped;
    return line;
  } catch (const CLI::ParseError& e) {
    err << "baton: " << e.what() << " (see --help)\n";
    line.exit_status = config::kExitUsage;
    return line;
  }
  if (version) {
    out << config::version_line("baton", instruction_sets()) << "\n";
    line.exit_status = config::kExitStopped;
  } else if (app.get_subcommands().empty()) {
    err << app.help();
    line.exit_status = config::kExitUsage;
  } else {
    line.command = command_of(app, options);
  }
  return line;
}

}  // namespace baton::cli
