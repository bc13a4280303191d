#include "deploy/baton/cluster_plan.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "common/config/load.h"
#include "common/http/address.h"
#include "deploy/baton/ports.h"

namespace baton::cli {
namespace {

constexpr std::string_view kTcp = "tcp://";

std::string stem_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.ends_with(".gguf")) {
    name.resize(name.size() - 5);
  }
  return name;
}

std::vector<std::string> overrides_of_flags(const UpOptions& options) {
  std::vector<std::string> set;
  if (!options.model.empty()) {
    set.push_back("model.path=" + options.model);
    set.push_back("model.name=" + stem_of(options.model));
  }
  if (!options.served_model_name.empty()) {
    set.push_back("model.name=" + options.served_model_name);
  }
  if (options.max_model_len) {
    set.push_back("model.max_context=" + std::to_string(*options.max_model_len));
  }
  if (!options.api_key_file.empty()) {
    set.push_back("router.api_keys_file=" + options.api_key_file);
  }
  return set;
}

// "tcp://host:port" as a host and port; nothing for ipc.
std::optional<http::HostPort> tcp_address(const std::string& control) {
  if (!control.starts_with(kTcp)) {
    return std::nullopt;
  }
  const Result<http::HostPort> parsed = http::parse_host_port(control.substr(kTcp.size()));
  return parsed.ok() ? std::optional<http::HostPort>(*parsed) : std::nullopt;
}

// Where a client on this machine finds a listener.
std::string url_of(http::HostPort listen, bool tls) {
  if (listen.host == "0.0.0.0") {
    listen.host = "127.0.0.1";
  } else if (listen.host == "::") {
    listen.host = "::1";
  }
  return http::origin({.tls = tls, .server = std::move(listen), .target = {}});
}

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += (out.empty() ? "" : ",") + item;
  }
  return out;
}

// The HTTP address with the flags applied and with a port that is free now.
Result<http::HostPort> settle_listen(const UpOptions& options, const config::Config& config,
                                     bool& any_port, Random& random) {
  BATON_ASSIGN_OR_RETURN(http::HostPort listen, http::parse_host_port(config.router.listen));
  if (!options.host.empty()) {
    listen.host = options.host;
  }
  if (options.port) {
    listen.port = static_cast<uint16_t>(*options.port);
  }
  any_port = listen.port == 0;
  if (any_port) {
    BATON_ASSIGN_OR_RETURN(listen.port, choose_port(listen.host, random));
    return listen;
  }
  const Status free = check_port(listen.host, listen.port);
  return free.ok() ? Result<http::HostPort>(listen) : free;
}

// Overrides that give the control link a port of its own; empty when that of the file will do.
Result<std::vector<std::string>> settle_control(const config::Config& config, bool any_port,
                                                Random& random) {
  const std::string& control = config.router.control;
  const std::optional<http::HostPort> address = tcp_address(control);
  if (!address || (!any_port && check_port(address->host, address->port).ok())) {
    return std::vector<std::string>();
  }
  BATON_ASSIGN_OR_RETURN(const uint16_t port, choose_port(address->host, random));
  const std::string chosen =
      std::string(kTcp) + http::to_string(http::HostPort{address->host, port});
  std::vector<std::string> routers = config.workers.routers;
  for (std::string& router : routers) {
    router = router == control ? chosen : router;
  }
  return std::vector<std::string>{"router.control=" + chosen, "workers.routers=" + joined(routers)};
}

Program program_of(config::Role role, const std::string& name, const std::string& bin_folder,
                   const UpOptions& options, const std::vector<std::string>& overrides) {
  Program program{.role = role, .name = name, .argv = {}};
  program.argv.push_back(bin_folder + "/baton-" + std::string(config::to_string(role)));
  const auto add = [&program](const char* flag, const std::string& value) {
    if (!value.empty()) {
      program.argv.push_back(flag);
      program.argv.push_back(value);
    }
  };
  add("--config", options.config_path);
  if (role != config::Role::kRouter) {
    add("--name", name);
  }
  for (const std::string& override_text : overrides) {
    add("--set", override_text);
  }
  add("--log-level", options.log_level);
  add("--log-format", options.log_format);
  return program;
}

}  // namespace

Result<ClusterPlan> plan_cluster(const UpOptions& options, const std::string& bin_folder,
                                 Random& random) {
  std::vector<std::string> overrides = overrides_of_flags(options);
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  config::LoadRequest request{
      .path = options.config_path, .overrides = overrides, .self = std::nullopt};
  ClusterPlan plan;
  BATON_ASSIGN_OR_RETURN(plan.config, config::load_config(request));
  if (!plan.config.workers.share_machine) {
    return invalid_argument(
        "workers.share_machine: false says that each worker has a machine of its own; baton up "
        "starts all of them here (start baton-router, baton-prefill and baton-decode instead)");
  }
  bool any_port = false;
  BATON_ASSIGN_OR_RETURN(const http::HostPort listen,
                         settle_listen(options, plan.config, any_port, random));
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> control,
                         settle_control(plan.config, any_port, random));
  overrides.push_back("router.listen=" + http::to_string(listen));
  overrides.insert(overrides.end(), control.begin(), control.end());
  request.overrides = overrides;
  BATON_ASSIGN_OR_RETURN(plan.config, config::load_config(request));
  plan.chose_ports = any_port || !control.empty();
  plan.url = url_of(listen, !plan.config.router.tls_certificate_file.empty());
  plan.programs.push_back(
      program_of(config::Role::kRouter, "router", bin_folder, options, overrides));
  for (const config::Worker& worker : plan.config.prefill) {
    plan.programs.push_back(
        program_of(config::Role::kPrefill, worker.name, bin_folder, options, overrides));
  }
  for (const config::Worker& worker : plan.config.decode) {
    plan.programs.push_back(
        program_of(config::Role::kDecode, worker.name, bin_folder, options, overrides));
  }
  return plan;
}

bool ports_were_taken(const ClusterPlan& plan) {
  const Result<http::HostPort> listen = http::parse_host_port(plan.config.router.listen);
  const std::optional<http::HostPort> control = tcp_address(plan.config.router.control);
  return (listen.ok() && !check_port(listen->host, listen->port).ok()) ||
         (control && !check_port(control->host, control->port).ok());
}

Result<std::string> own_folder() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size()) {
    return internal_error("cannot read /proc/self/exe");
  }
  const std::string_view whole(path.data(), static_cast<size_t>(length));
  return std::string(whole.substr(0, whole.rfind('/')));
}

}  // namespace baton::cli
