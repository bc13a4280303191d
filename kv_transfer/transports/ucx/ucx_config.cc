#include "kv_transfer/transports/ucx/ucx_config.h"

#include <dlfcn.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "kv_transfer/transports/ucx/ucx_status.h"

namespace baton::kv_transfer {
namespace {

using Setting = std::pair<std::string, std::string>;

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

// Why each: docs/operations.md. The inner form of a key is the one that ucp_config_modify
// understands ("MM_FIFO_SIZE", not "POSIX_FIFO_SIZE").
std::vector<Setting> settings_for(const UcxOptions& options) {
  std::vector<Setting> settings = {{"KEEPALIVE_INTERVAL", "200ms"}};
  if (options.transport == "ucx-posix") {
    settings.insert(settings.end(), {{"TLS", "posix"},
                                     // Without it an endpoint that handles errors refuses shared
                                     // memory, or silently takes another transport.
                                     {"MM_ERROR_HANDLING", "y"},
                                     // The default of 64 short slots collapses when both ends share
                                     // a core.
                                     {"MM_FIFO_SIZE", "256"},
                                     {"MM_SEG_SIZE", "32k"}});
  } else {
    settings.insert(settings.end(), {{"TLS", "tcp"},
                                     {"NET_DEVICES", join(options.devices)},
                                     {"TX_SEG_SIZE", "64k"},
                                     {"RX_SEG_SIZE", "256k"}});
  }
  return settings;
}

// Names of UCX_* variables, without the prefix. Read from the kernel's copy: what UCX itself saw.
std::set<std::string> user_settings() {
  std::set<std::string> names;
  std::ifstream file("/proc/self/environ", std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    constexpr std::string_view kPrefix = "UCX_";
    const size_t equals = entry.find('=');
    if (entry.starts_with(kPrefix) && equals != std::string::npos) {
      names.insert(entry.substr(kPrefix.size(), equals - kPrefix.size()));
    }
  }
  return names;
}

}  // namespace

Result<UcxConfig> make_config(const UcxOptions& options) {
  if (options.transport == "ucx-tcp" && options.devices.empty()) {
    return invalid_argument("ucx-tcp needs the names of its network devices");
  }
  ucp_config_t* raw = nullptr;
  BATON_RETURN_IF_ERROR(from_ucx(ucp_config_read(nullptr, nullptr, &raw), "ucp_config_read"));
  UcxConfig config(raw);
  const std::set<std::string> user = user_settings();
  for (const auto& [key, value] : settings_for(options)) {
    if (user.contains(key)) {
      log_warn("UCX setting of the environment wins",
               {{"variable", "UCX_" + key}, {"instead_of", value}});
      continue;
    }
    BATON_RETURN_IF_ERROR(
        from_ucx(ucp_config_modify(config.get(), key.c_str(), value.c_str()), "UCX " + key));
  }
  return config;
}

Status check_lanes(std::string_view ep_info, std::string_view transport) {
  const std::string wanted = transport == "ucx-posix" ? "posix" : "tcp";
  size_t lanes = 0;
  constexpr std::string_view kLane = "lane[";
  for (size_t at = ep_info.find(kLane); at != std::string_view::npos;
       at = ep_info.find(kLane, at + 1)) {
    // "lane[0]:  0:posix/memory.0 md[0] ..."
    std::string_view line = ep_info.substr(at, ep_info.find('\n', at) - at);
    const size_t slash = line.find('/');
    const size_t colon = slash == std::string_view::npos ? slash : line.rfind(':', slash);
    if (colon == std::string_view::npos) {
      continue;
    }
    ++lanes;
    const std::string_view found = line.substr(colon + 1, slash - colon - 1);
    if (found != wanted) {
      return unavailable(std::string(transport) + " runs on the lane '" + std::string(found) +
                         "', expected '" + wanted + "'");
    }
  }
  if (lanes == 0) {
    return unavailable(std::string(transport) + " has no lane");
  }
  return Status();
}

// Only where UCX's handler is installed: giving back twice is an error of its own.
void restore_signal_handlers() {
  for (const int signal : std::array{SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    struct sigaction now{};
    Dl_info owner{};
    if (sigaction(signal, nullptr, &now) == 0 &&
        dladdr(reinterpret_cast<void*>(now.sa_sigaction), &owner) != 0 &&
        owner.dli_fname != nullptr &&
        std::string_view(owner.dli_fname).find("libucs") != std::string_view::npos) {
      ucs_debug_disable_signal(signal);
    }
  }
}

}  // namespace baton::kv_transfer
