// Control links with a cluster key: who gets in, and what both sides say of who does not.

#include "common/wire/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include "common/wire/sockets.h"

namespace baton::wire {
namespace {

using testing::AnyOf;

std::optional<ClusterKey> key(char last) {
  return ClusterKey::parse(std::string("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5M") + last + "E=")
      .value();
}

// Turns both ends until the condition holds or ten seconds have passed.
template <typename Condition>
bool until(const Condition& condition) {
  const TimePoint deadline = SteadyClock().now() + 10s;
  while (!condition()) {
    if (SteadyClock().now() >= deadline) {
      return false;
    }
    wait_readable({}, SteadyClock().now() + 2ms);
  }
  return true;
}

// What the connection says after its first failed handshake; empty when a message came through.
std::string refusal(const std::optional<ClusterKey>& of_listener,
                    const std::optional<ClusterKey>& of_connection,
                    const std::string& address = "tcp://127.0.0.1:*") {
  Context here(of_listener);
  Context there(of_connection);
  Listener listener = Listener::bind(here, address).value();
  Connection connection = Connection::connect(there, listener.address()).value();
  EXPECT_TRUE(connection.send(Goodbye{Incarnation{5}}).ok());
  bool arrived = false;
  EXPECT_TRUE(until([&] {
    arrived = arrived || listener.receive().has_value();
    listener.report_refused(SteadyClock().now());
    connection.take_disconnected();
    return arrived || connection.failed_handshakes() > 0;
  }));
  EXPECT_EQ(arrived, connection.failed_handshakes() == 0);
  return connection.why_failed();
}

TEST(AdmissionTest, MembersTalk) {
  EXPECT_EQ(refusal(key('D'), key('D')), "");
  EXPECT_EQ(refusal(key('D'), key('D'), "ipc://" + testing::TempDir() + "baton_admission_test"),
            "");
  EXPECT_EQ(refusal(key('D'), key('D'), "tcp://[::1]:*"), "");
}

TEST(AdmissionTest, AnotherKeyIsRefused) {
  EXPECT_EQ(refusal(key('D'), key('T')),
            "cluster key does not match: the peer closed the handshake");
}

// Which side notices first is chance: the other one sees a close.
TEST(AdmissionTest, OneSideWithoutAKeyIsRefused) {
  EXPECT_THAT(refusal(key('D'), std::nullopt),
              AnyOf("cluster key does not match: the peer asks for one; set cluster.key_file",
                    "the peer closed the handshake; if its cluster has a key, set "
                    "cluster.key_file"));
  EXPECT_THAT(refusal(std::nullopt, key('D')),
              AnyOf("cluster key does not match: the peer has none (cluster.key_file)",
                    "cluster key does not match: the peer closed the handshake"));
}

// Knowing the listener's public key is not enough: it is not admitted without the member's.
TEST(AdmissionTest, TheListenersPublicKeyAloneAdmitsNobody) {
  const std::optional<ClusterKey> cluster = key('D');
  Context here(cluster);
  Listener listener = Listener::bind(here, "tcp://127.0.0.1:*").value();
  Context there;
  void* stranger = zmq_socket(there.native(), ZMQ_DEALER);
  const ClusterKey::Pair& own = key('T')->member();
  zmq_setsockopt(stranger, ZMQ_CURVE_SERVERKEY, cluster->listener().public_key.data(), 32);
  zmq_setsockopt(stranger, ZMQ_CURVE_PUBLICKEY, own.public_key.data(), 32);
  zmq_setsockopt(stranger, ZMQ_CURVE_SECRETKEY, own.secret_key.data(), 32);
  Monitor monitor = Monitor::attach(there.native(), stranger).value();
  ASSERT_EQ(zmq_connect(stranger, listener.address().c_str()), 0);
  Monitor::Seen seen;
  EXPECT_TRUE(until([&] {
    seen = monitor.drain();
    return seen.failed > 0 || seen.done;
  }));
  EXPECT_FALSE(seen.done);
  EXPECT_FALSE(listener.receive().has_value());
  monitor.release();
  zmq_close(stranger);
}

TEST(AdmissionTest, ALinkComesUpOnceTheKeysAgree) {
  Context wrong(key('T'));
  Context right(key('D'));
  std::optional<Listener> listener = Listener::bind(wrong, "tcp://127.0.0.1:*").value();
  const std::string address = listener->address();
  Connection connection = Connection::connect(right, address).value();
  ASSERT_TRUE(until([&] {
    connection.take_disconnected();
    return connection.failed_handshakes() > 1;
  }));
  listener.reset();
  ASSERT_TRUE(until([&] {
    Result<Listener> again = Listener::bind(right, address);
    if (again.ok()) {
      listener.emplace(std::move(*again));
    }
    return listener.has_value();
  }));
  ASSERT_TRUE(connection.send(Goodbye{Incarnation{5}}).ok());
  EXPECT_TRUE(until([&] { return listener->receive().has_value(); }));
  connection.take_disconnected();
  EXPECT_EQ(connection.failed_handshakes(), 0);
  EXPECT_EQ(connection.why_failed(), "");
}

TEST(AdmissionTest, AProgramThatIsNoZeroMqIsNamedAsSuch) {
  EXPECT_EQ(explain(Handshake::kSilent, true),
            "no handshake in time; is a program of Baton listening there?");
  EXPECT_EQ(explain(Handshake::kNone, true), "");
}

}  // namespace
}  // namespace baton::wire
