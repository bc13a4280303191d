// The program baton.

#include <iostream>
#include <string_view>

#include "common/base/log.h"
#include "common/config/program_options.h"
#include "deploy/baton/command_line.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/serve_bench/serve_bench.h"
#include "deploy/baton/up.h"

namespace baton::cli {
namespace {

int run(const UpOptions& options) {
  const Result<std::string> folder = own_folder();
  if (!folder.ok()) {
    std::cerr << "baton: " << folder.status().message() << "\n";
    return config::kExitCannotStart;
  }
  return run_up(options, *folder);
}
int run(const StatusOptions& options) { return run_status(options); }
int run(const ChatOptions& options) { return run_chat(options); }
int run(const ExplainOptions& options) { return run_explain(options); }
int run(const ModelOptions& options) { return run_model(options); }
int run(const GenerateOptions& options) { return run_generate(options); }
int run(const QualityOptions& options) { return run_quality(options); }
int run(const EngineBenchOptions& options) { return run_engine_bench(options); }
int run(const TransferBenchOptions& options) { return run_transfer_bench(options); }
int run(const FaultBenchOptions& options) { return run_fault_bench(options); }
int run(const serve_bench::ServeBenchOptions& options) {
  const Result<std::string> key = first_api_key(options.api_key_file);
  if (!key.ok()) {
    std::cerr << "baton: " << key.status().message() << "\n";
    return config::kExitCannotStart;
  }
  return serve_bench::run_serve_bench(options, *key);
}

}  // namespace
}  // namespace baton::cli

int main(int argc, char** argv) {
  // The commands report what goes wrong themselves; `up` sets up a log of its own.
  baton::LogOptions log;
  log.level = baton::LogLevel::kError;
  log.program = "baton";
  baton::init_log(log);
  // Not a command for people: the second process of `bench transfer`.
  if (argc > 3 && std::string_view(argv[1]) == "bench" &&
      std::string_view(argv[2]) == baton::cli::kTransferBenchChild) {
    return baton::kv_transfer::run_transfer_bench_child({argv + 3, argv + argc});
  }
  const baton::cli::CommandLine line =
      baton::cli::parse_command_line(argc, argv, std::cout, std::cerr);
  if (line.exit_status) {
    return *line.exit_status;
  }
  return std::visit([](const auto& options) { return baton::cli::run(options); }, line.command);
}
