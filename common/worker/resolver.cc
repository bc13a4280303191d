#include "common/worker/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/clock.h"

namespace baton::worker {
namespace {

constexpr size_t kQueue = 64;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

std::string numeric(const addrinfo& entry) {
  std::array<char, NI_MAXHOST> text{};
  return getnameinfo(entry.ai_addr, entry.ai_addrlen, text.data(), text.size(), nullptr, 0,
                     NI_NUMERICHOST) == 0
             ? std::string(text.data())
             : std::string();
}

Result<std::vector<std::string>> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &first);
  const std::unique_ptr<addrinfo, FreeAddresses> list(error == 0 ? first : nullptr);
  std::vector<std::string> found;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string address = numeric(*entry);
    if (!address.empty() && std::find(found.begin(), found.end(), address) == found.end()) {
      found.push_back(address);
    }
  }
  if (found.empty()) {
    return not_found(error != 0 ? gai_strerror(error) : "no address");
  }
  return found;
}

}  // namespace

SystemResolver::SystemResolver() : questions_({.items = kQueue}), answers_({.items = kQueue}) {}

SystemResolver::~SystemResolver() {
  questions_.close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool SystemResolver::ask(const std::string& host) {
  if (!thread_.joinable()) {
    thread_ = std::jthread([this] { run(); });
  }
  std::string question = host;
  return questions_.try_push(std::move(question)) == PushResult::kPushed;
}

std::optional<Resolver::Answer> SystemResolver::take() { return answers_.try_pop(); }

void SystemResolver::run() {
  pthread_setname_np(pthread_self(), "resolver");
  // Of this thread: short waits, because the question comes again anyway and the end of the program
  // waits for the one under way.
  if (res_init() == 0) {
    _res.retrans = 2;
    _res.retry = 1;
  }
  while (std::optional<std::string> host = questions_.pop_until(TimePoint::max())) {
    Answer answer{*host, resolve(*host)};
    (void)answers_.try_push(std::move(answer));
  }
}

}  // namespace baton::worker
