// The one file that sees CLI11.
#include "common/config/program_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <ostream>
#include <utility>
#include <vector>

namespace baton::config {
namespace {

struct Arguments {
  bool version = false;
  bool check_config = false;
  std::string name;
  std::string log_level;
  std::string log_format;
  LoadRequest load;
};

// The exit status when the command line says all: help, version, bad usage.
std::optional<int> parse(const ProgramDescription& program, int argc, const char* const* argv,
                         Arguments& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app(program.purpose, program.program);
  app.add_flag("--version", arguments.version, "Print version, commit, build, instruction sets");
  app.add_option("--config", arguments.load.path, "Cluster file; without it the defaults hold")
      ->type_name("FILE");
  if (program.role != Role::kRouter) {
    app.add_option("--name", arguments.name,
                   "Which worker of the file this is; not needed when its role has one")
        ->type_name("NAME");
  }
  app.add_option("--set", arguments.load.overrides,
                 "Override a key; worker.KEY is the own entry; may be given again")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--check-config", arguments.check_config,
               "Check the configuration, print all of it, exit");
  app.add_option("--log-level", arguments.log_level, "debug, info, warn or error")
      ->type_name("LEVEL");
  app.add_option("--log-format", arguments.log_format, "text or json")->type_name("FORMAT");
  const std::string example = "\n  " + program.program + " --config ";
  app.footer("examples:" + example + "deploy/local.yaml" + example + "cluster.yaml --check-config");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return kExitStopped;
  } catch (const CLI::ParseError& e) {
    err << program.program << ": " << e.what() << " (see --help)\n";
    return kExitUsage;
  }
  if (arguments.version) {
    out << version_line(program.program, program.instruction_sets) << "\n";
    return kExitStopped;
  }
  return std::nullopt;
}

Status load(const ProgramDescription& program, Arguments& arguments, Startup& startup) {
  startup.self = {program.role, arguments.name};
  arguments.load.self = startup.self;
  BATON_ASSIGN_OR_RETURN(startup.config, load_config(arguments.load));
  startup.self = renamed(startup.self, arguments.load.overrides);
  if (program.role != Role::kRouter) {
    BATON_ASSIGN_OR_RETURN(const Worker* own, own_entry(startup.config, startup.self));
    startup.self.name = own->name;
  }
  startup.log.level = startup.config.log.level;
  startup.log.format = startup.config.log.format;
  if (!arguments.log_level.empty()) {
    BATON_ASSIGN_OR_RETURN(startup.log.level, parse_log_level(arguments.log_level));
  }
  if (!arguments.log_format.empty()) {
    BATON_ASSIGN_OR_RETURN(startup.log.format, parse_log_format(arguments.log_format));
  }
  startup.config.log.level = startup.log.level;
  startup.config.log.format = startup.log.format;
  startup.log.program = program.program;
  startup.log.worker = startup.self.name;
  return Status();
}

}  // namespace

std::string version_line(std::string_view program, std::string_view instruction_sets) {
  const VersionInfo info = version_info();
  std::string out = std::string(program) + " " + info.version + " (commit " + info.commit + ", " +
                    info.build_type;
  if (!instruction_sets.empty()) {
    out += ", instruction sets: " + std::string(instruction_sets);
  }
  return out + ")";
}

Startup start_program(const ProgramDescription& program, int argc, const char* const* argv,
                      std::ostream& out, std::ostream& err) {
  Startup startup;
  Arguments arguments;
  startup.exit_status = parse(program, argc, argv, arguments, out, err);
  if (startup.exit_status) {
    return startup;
  }
  const Status status = load(program, arguments, startup);
  if (!status.ok()) {
    err << program.program << ": " << status.message() << "\n";
    startup.exit_status = kExitCannotStart;
  } else if (arguments.check_config) {
    out << to_yaml(startup.config);
    startup.exit_status = kExitStopped;
  }
  return startup;
}

}  // namespace baton::config
