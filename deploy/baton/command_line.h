#pragma once

// The command line of the program `baton`: subcommands and flags to plain structs.
// docs/operations.md lists them.

#include <iosfwd>
#include <optional>
#include <variant>

#include "deploy/baton/chat.h"
#include "deploy/baton/cluster_plan.h"
#include "deploy/baton/engine_bench.h"
#include "deploy/baton/explain.h"
#include "deploy/baton/fault_bench.h"
#include "deploy/baton/generate.h"
#include "deploy/baton/model_report.h"
#include "deploy/baton/quality.h"
#include "deploy/baton/serve_bench/options.h"
#include "deploy/baton/status_report.h"
#include "deploy/baton/transfer_bench.h"

namespace baton::cli {

using Command =
    std::variant<UpOptions, StatusOptions, ChatOptions, ExplainOptions, ModelOptions,
                 GenerateOptions, QualityOptions, EngineBenchOptions, TransferBenchOptions,
                 FaultBenchOptions, serve_bench::ServeBenchOptions>;

struct CommandLine {
  std::optional<int> exit_status;  // set: help, version or bad usage; nothing else to do
  Command command;
};

// Help and version go to `out`, bad usage to `err` as one line.
CommandLine parse_command_line(int argc, const char* const* argv, std::ostream& out,
                               std::ostream& err);

}  // namespace baton::cli
