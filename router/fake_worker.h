#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "common/wire/sockets.h"

namespace baton::router {

// A worker as the router sees it, driven by the test.
class FakeWorker {
 public:
  FakeWorker(wire::Context& context, const std::string& address, wire::WorkerInfo info)
      : info_(std::move(info)), connection_(wire::Connection::connect(context, address).value()) {}

  Incarnation id() const { return info_.incarnation; }
  wire::WorkerInfo& info() { return info_; }

  void send(const wire::Message& message) { EXPECT_TRUE(connection_.send(message).ok()); }

  // The next message of that kind; others are skipped. Null after `within`.
  template <typename T>
  std::optional<T> next(Duration within = 10s) {
    const TimePoint deadline = SteadyClock().now() + within;
    while (SteadyClock().now() < deadline) {
      if (std::optional<wire::Received> received = connection_.receive()) {
        EXPECT_TRUE(received->message.ok());
        if (T* wanted = std::get_if<T>(&*received->message)) {
          return std::move(*wanted);
        }
        continue;
      }
      const int fd = connection_.poll_fd();
      wire::wait_readable({&fd, 1}, std::min(deadline, SteadyClock().now() + 50ms));
    }
    return std::nullopt;
  }

  // Empty when welcome, else the reason.
  std::string join() {
    send(wire::Register{info_});
    const std::optional<wire::Welcome> welcome = next<wire::Welcome>();
    EXPECT_TRUE(welcome);
    return !welcome || !welcome->accepted ? "refused: " + (welcome ? welcome->reason : "") : "";
  }

  void tokens(const RunKey& key, uint32_t first, std::vector<TokenId> ids,
              wire::FinishReason finish = wire::FinishReason::kNone, uint32_t choice = 0) {
    wire::Tokens message;
    message.key = key;
    message.from = id();
    message.choice = choice;
    message.first_index = first;
    message.ids = std::move(ids);
    message.finish = finish;
    send(message);
  }
  void fail(const RunKey& key, StatusCode code, const std::string& why) {
    send(wire::RunFailed{key, id(), code, why, 2500});
  }

 private:
  wire::WorkerInfo info_;
  wire::Connection connection_;
};

}  // namespace baton::router
