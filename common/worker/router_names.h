#pragma once

// The addresses that workers.routers stands for at the moment. A DNS name stands for all its
// addresses (those of IPv4 if it has any, else those of IPv6: a router with one of each is one
// router) and is asked for again and again; what was known stays while a name cannot be resolved.

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/worker/resolver.h"

namespace baton::worker {

class RouterNames {
 public:
  static constexpr size_t kMaxAddresses = 16;

  // `resolver` may be null when no entry is a name. Error: an entry that is no address, or too
  // many.
  static Result<RouterNames> parse(const std::vector<std::string>& routers, Resolver* resolver,
                                   Duration every);
  // Asks for names whose time has come and takes answers. True when addresses() has changed.
  bool update(TimePoint now);
  // tcp://10.0.0.1:7800, ipc://path: each once.
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  struct Entry {
    std::string address;  // as configured
    std::string host;     // of a name
    std::string port;
    std::vector<std::string> known;  // numeric
    TimePoint next_ask{};
    bool asked = false;
    std::string problem;  // logged
  };
  void take(Entry& entry, const Result<std::vector<std::string>>& answer, TimePoint now);
  bool collect();

  Resolver* resolver_ = nullptr;
  Duration every_{};
  std::vector<Entry> entries_;
  std::vector<std::string> addresses_;
};

}  // namespace baton::worker
