// The program baton.

#include <iostream>

#include "deploy/baton/command_line.h"
#include "deploy/baton/up.h"

namespace baton::cli {
namespace {

int run(const UpOptions& options) { return run_up(options); }
int run(const StatusOptions& options) { return run_status(options); }
int run(const GenerateOptions& options) { return run_generate(options); }
int run(const QualityOptions& options) { return run_quality(options); }
int run(const EngineBenchOptions& options) { return run_engine_bench(options); }

}  // namespace
}  // namespace baton::cli

int main(int argc, char** argv) {
  const baton::cli::CommandLine line =
      baton::cli::parse_command_line(argc, argv, std::cout, std::cerr);
  if (line.exit_status) {
    return *line.exit_status;
  }
  return std::visit([](const auto& options) { return baton::cli::run(options); }, line.command);
}
