#include "common/wire/sockets.h"

#include <gtest/gtest.h>

namespace baton::wire {
namespace {

// Waits until `socket` has a message; fails the test after ten seconds.
template <typename Socket>
std::optional<Received> wait_for(Socket& socket) {
  const TimePoint deadline = SteadyClock().now() + 10s;
  while (SteadyClock().now() < deadline) {
    if (auto received = socket.receive()) {
      return received;
    }
    const int fd = socket.poll_fd();
    wait_readable({&fd, 1}, std::min(deadline, SteadyClock().now() + 100ms));
  }
  return std::nullopt;
}

TEST(SocketsTest, CarriesMessagesBothWays) {
  Context context;
  auto listener = Listener::bind(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  auto connection = Connection::connect(context, listener->address());
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE(connection->send(Goodbye{Incarnation{5}}).ok());
  const auto got = wait_for(*listener);
  ASSERT_TRUE(got && got->message.ok());
  EXPECT_EQ(std::get<Goodbye>(*got->message).incarnation.value, 5u);
  ASSERT_TRUE(listener->send(got->peer, Welcome{Incarnation{9}, true, ""}).ok());
  const auto reply = wait_for(*connection);
  ASSERT_TRUE(reply && reply->message.ok());
  EXPECT_EQ(std::get<Welcome>(*reply->message).router.value, 9u);
}

TEST(SocketsTest, NamesAnAddressInUse) {
  Context context;
  auto first = Listener::bind(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(first.ok());
  const auto second = Listener::bind(context, first->address());
  EXPECT_EQ(second.status().message(), "cannot listen on '" + first->address() +
                                           "': address already in use; choose another port");
}

TEST(SocketsTest, RefusesWhatIsNoAddress) {
  Context context;
  EXPECT_EQ(Listener::bind(context, "127.0.0.1").status().message(),
            "cannot listen on '127.0.0.1': not an address (want tcp://host:port or ipc://path)");
}

TEST(SocketsTest, SendToAnUnknownPeerFails) {
  Context context;
  auto listener = Listener::bind(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener->send("nobody", Goodbye{Incarnation{1}}).code(), StatusCode::kUnavailable);
}

TEST(SocketsTest, TellsWhenThePeerIsGone) {
  Context context;
  auto connection = [&] {
    auto listener = Listener::bind(context, "tcp://127.0.0.1:*");
    auto made = Connection::connect(context, listener->address());
    EXPECT_TRUE(made->send(Goodbye{Incarnation{5}}).ok());
    EXPECT_TRUE(wait_for(*listener).has_value());
    EXPECT_FALSE(made->take_disconnected());
    return made;
  }();
  const int fd = connection->monitor_fd();
  const TimePoint deadline = SteadyClock().now() + 10s;
  bool gone = false;
  while (!gone && SteadyClock().now() < deadline) {
    wait_readable({&fd, 1}, std::min(deadline, SteadyClock().now() + 100ms));
    gone = connection->take_disconnected();
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace baton::wire
