#include "common/worker/router_names.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace baton::worker {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr Duration kUnknownEvery = 1s;  // while nothing is known of a name

bool is_ipv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}
bool is_numeric(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || host.front() == '[' || host == "*";
}

void keep_one_family(std::vector<std::string>& addresses) {
  if (!std::all_of(addresses.begin(), addresses.end(), is_ipv6)) {
    std::erase_if(addresses, is_ipv6);
  }
  std::sort(addresses.begin(), addresses.end());
}

}  // namespace

Result<RouterNames> RouterNames::parse(const std::vector<std::string>& routers, Resolver* resolver,
                                       Duration every) {
  if (routers.size() > kMaxAddresses) {
    return invalid_argument("workers.routers: more than " + std::to_string(kMaxAddresses) +
                            " routers");
  }
  RouterNames names;
  names.resolver_ = resolver;
  names.every_ = every;
  for (const std::string& address : routers) {
    Entry entry;
    entry.address = address;
    const size_t colon = address.rfind(':');
    if (address.starts_with(kTcp) && colon > kTcp.size()) {
      std::string host = address.substr(kTcp.size(), colon - kTcp.size());
      if (!is_numeric(host)) {
        entry.host = std::move(host);
        entry.port = address.substr(colon + 1);
      }
    }
    if (!entry.host.empty() && resolver == nullptr) {
      return invalid_argument("'" + address + "' is a name, and nobody resolves it");
    }
    names.entries_.push_back(std::move(entry));
  }
  names.collect();
  return names;
}

void RouterNames::take(Entry& entry, const Result<std::vector<std::string>>& answer,
                       TimePoint now) {
  entry.asked = false;
  if (answer.ok()) {
    entry.known = *answer;
    keep_one_family(entry.known);
    entry.problem.clear();
  } else if (entry.problem != answer.status().message()) {
    entry.problem = answer.status().message();
    log_warn("router's name does not resolve",
             {{"router", entry.address}, {"error", entry.problem}, {"known", entry.known.size()}});
  }
  entry.next_ask = now + (entry.known.empty() ? std::min(kUnknownEvery, every_) : every_);
}

// Rewrites addresses_; true when it differs.
bool RouterNames::collect() {
  std::vector<std::string> all;
  const auto add = [&all](const std::string& address) {
    if (all.size() < kMaxAddresses && std::find(all.begin(), all.end(), address) == all.end()) {
      all.push_back(address);
    }
  };
  for (const Entry& entry : entries_) {
    if (entry.host.empty()) {
      add(entry.address);
    }
    for (const std::string& known : entry.known) {
      add(std::string(kTcp) + (is_ipv6(known) ? "[" + known + "]" : known) + ":" + entry.port);
    }
  }
  if (all == addresses_) {
    return false;
  }
  addresses_ = std::move(all);
  return true;
}

bool RouterNames::update(TimePoint now) {
  for (Entry& entry : entries_) {
    if (!entry.host.empty() && !entry.asked && now >= entry.next_ask) {
      entry.asked = resolver_->ask(entry.host);
    }
  }
  bool answered = false;
  while (resolver_ != nullptr) {
    std::optional<Resolver::Answer> answer = resolver_->take();
    if (!answer) {
      break;
    }
    answered = true;
    for (Entry& entry : entries_) {
      if (entry.host == answer->host) {
        take(entry, answer->addresses, now);
      }
    }
  }
  return answered && collect();
}

}  // namespace baton::worker
