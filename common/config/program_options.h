#pragma once

// The command line that the three daemons share: --help --version --config --name --set
// --check-config --log-level --log-format. docs/operations.md lists them.

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/config/config.h"
#include "common/config/load.h"

namespace baton::config {

// Exit statuses of every program.
inline constexpr int kExitStopped = 0;      // stopped as asked
inline constexpr int kExitCannotStart = 1;  // one line on stderr says why
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFault = 3;

struct VersionInfo {
  std::string version;     // "0.1.0"
  std::string commit;      // at configure time; "unknown" outside a checkout
  std::string build_type;  // "Release"
};
VersionInfo version_info();

struct ProgramDescription {
  std::string program;  // "baton-prefill"
  std::string purpose;  // one line for --help
  Role role = Role::kRouter;
  std::string instruction_sets;  // for --version: "scalar avx2 avx512"; may be empty
};

// What main() goes on with: either a status to return at once, or a checked configuration.
struct Startup {
  std::optional<int> exit_status;
  Config config;
  Self self;  // with the name filled in
  LogOptions log;
};

// Parses, loads, checks. Help, version and the printed configuration go to `out`, what is wrong to
// `err` as one line. Does not set up logging.
Startup start_program(const ProgramDescription& program, int argc, const char* const* argv,
                      std::ostream& out, std::ostream& err);

// "baton-prefill 0.1.0 (commit abc, Release, instruction sets: scalar avx2)"
std::string version_line(std::string_view program, std::string_view instruction_sets);

}  // namespace baton::config
