#include "deploy/baton/status_report.h"

#include <unistd.h>

#include <iostream>

#include "common/config/program_options.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/status_table.h"
#include "deploy/baton/status_watch.h"
#include "deploy/baton/terminal_signals.h"

namespace baton::cli {
namespace {

constexpr Duration kTimeout = 5s;

int failed(const Status& status) {
  std::cerr << "baton: " << one_line(status.message()) << std::endl;
  return config::kExitCannotStart;
}

int watch(const StatusOptions& options, ServerAccess server) {
  TerminalSignals signals;
  RouterClient client(std::move(server), kTimeout, signals.fd());
  const WatchParts parts = {
      .ask = [&client] { return client.status(); },
      .wait = [&signals](Duration interval) { return signals.wait(interval) == WokenBy::kSignal; },
      .screen = []() -> std::optional<ScreenSize> {
        return isatty(STDOUT_FILENO) == 1 ? std::optional(screen_size(STDOUT_FILENO))
                                          : std::nullopt;
      },
      .out = std::cout,
      .err = std::cerr};
  const auto interval = from_seconds(*options.watch_s);
  return watch_status(interval, options.json, parts);
}

}  // namespace

int run_status(const StatusOptions& options) {
  const Result<std::string> key = first_api_key(options.api_key_file);
  if (!key.ok()) {
    return failed(key.status());
  }
  ServerAccess server{options.url, *key, trust_in(options.cacert)};
  if (options.watch_s) {
    return watch(options, std::move(server));
  }
  const Result<ClusterStatus> status = RouterClient(std::move(server), kTimeout).status();
  if (!status.ok()) {
    return failed(status.status());
  }
  std::cout << (options.json ? status->json + "\n" : status_table(*status)) << std::flush;
  return config::kExitStopped;
}

}  // namespace baton::cli
