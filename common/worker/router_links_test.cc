#include "common/worker/router_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/worker/testing/fake_resolver.h"
#include "common/worker/testing/role_host.h"

namespace baton::worker {
namespace {

class RouterLinksTest : public testing::Test {
 protected:
  void connect(const std::vector<std::string>& addresses) {
    links_.emplace(std::move(RouterLinks::connect(context_, {.addresses = addresses,
                                                             .heartbeat = 10ms,
                                                             .resolver = &resolver_,
                                                             .resolve_every = 10ms}))
                       .value());
    links_->set_handlers({[this](wire::Message message, Incarnation router) {
                            messages_.emplace_back(std::move(message), router);
                          },
                          [this](Incarnation router) { lost_.push_back(router); }});
    wire::WorkerInfo info;
    info.name = "d0";
    info.incarnation = Incarnation{5};
    links_->set_info(info);
  }
  bool until(const std::vector<FakeRouter*>& routers, const std::function<bool()>& condition) {
    const TimePoint deadline = clock_.now() + 60s;
    while (clock_.now() < deadline) {
      for (FakeRouter* router : routers) {
        router->pump();
      }
      links_->poll();
      const TimePoint now = clock_.now();
      if (now >= next_tick_) {
        wire::Heartbeat heartbeat;
        heartbeat.incarnation = Incarnation{5};
        links_->tick(now, heartbeat);
        next_tick_ = now + 5ms;
      }
      if (condition()) {
        return true;
      }
      wire::wait_readable(links_->poll_fds(), clock_.now() + 1ms);
    }
    return false;
  }

  // "tcp://name:port" for a router's own address.
  static std::string named(const FakeRouter& router) {
    return "tcp://routers" + router.address().substr(router.address().rfind(':'));
  }
  // A router at another address with the same port.
  static std::string beside(const FakeRouter& router, const std::string& host) {
    return "tcp://" + host + router.address().substr(router.address().rfind(':'));
  }

  SteadyClock clock_;
  wire::Context context_;
  FakeResolver resolver_;
  std::optional<RouterLinks> links_;
  std::vector<std::pair<wire::Message, Incarnation>> messages_;
  std::vector<Incarnation> lost_;
  TimePoint next_tick_{};
};

TEST_F(RouterLinksTest, RegistersAndSendsHeartbeatsAfterTheWelcome) {
  FakeRouter router(context_);
  connect({router.address()});
  EXPECT_EQ(links_->send(router.incarnation(), wire::Goodbye{Incarnation{5}}).code(),
            StatusCode::kUnavailable);
  ASSERT_TRUE(until({&router}, [&] { return router.heartbeats.contains("d0"); }));
  EXPECT_EQ(router.heartbeats["d0"].incarnation, Incarnation{5});
  EXPECT_TRUE(links_->connected(router.incarnation()));
  EXPECT_FALSE(links_->connected(Incarnation{}));
  EXPECT_FALSE(links_->connected(Incarnation{1234}));
  EXPECT_EQ(links_->welcomed(), 1);
}

TEST_F(RouterLinksTest, CarriesMessagesBothWays) {
  FakeRouter router(context_);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  router.send("d0", wire::Cancel{RequestId{U128{1, 2}}, 3, "client"});
  ASSERT_TRUE(until({&router}, [&] { return !messages_.empty(); }));
  EXPECT_EQ(std::get<wire::Cancel>(messages_[0].first).attempt, 3);
  EXPECT_EQ(messages_[0].second, router.incarnation());
  links_->send_all(wire::Goodbye{Incarnation{5}});
  EXPECT_TRUE(until({&router}, [&] { return router.goodbyes.size() == 1; }));
}

TEST_F(RouterLinksTest, ASendAsksForAnotherPoll) {
  FakeRouter router(context_);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  links_->poll();
  EXPECT_FALSE(links_->sent_since_poll());
  ASSERT_TRUE(links_->send(router.incarnation(), wire::Goodbye{Incarnation{5}}).ok());
  EXPECT_TRUE(links_->sent_since_poll());
  links_->poll();
  EXPECT_FALSE(links_->sent_since_poll());
}

TEST_F(RouterLinksTest, KeepsTryingAfterARefusalAndTellsWhy) {
  FakeRouter router(context_);
  router.refuse("model hash differs");
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return router.registrations >= 3; }));
  EXPECT_EQ(links_->welcomed(), 0);
  EXPECT_EQ(links_->refusal(), "model hash differs");
  router.refuse("");
  EXPECT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  EXPECT_EQ(links_->refusal(), "");
  EXPECT_TRUE(lost_.empty());
}

TEST_F(RouterLinksTest, DropsRequestsBeforeTheWelcome) {
  FakeRouter router(context_);
  router.refuse("not yet");
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return !links_->refusal().empty(); }));
  router.send("d0", wire::Cancel{RequestId{U128{1, 2}}, 0, "client"});
  router.refuse("");
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(RouterLinksTest, TellsTheLossOfARouterAndRegistersWithItsSuccessor) {
  std::optional<FakeRouter> router(std::in_place, context_, 77);
  FakeRouter other(context_, 99);
  connect({router->address(), other.address()});
  ASSERT_TRUE(until({&*router, &other}, [&] { return links_->welcomed() == 2; }));
  const std::string address = router->address();
  router.reset();
  ASSERT_TRUE(until({&other}, [&] { return lost_ == std::vector<Incarnation>{{77}}; }));
  EXPECT_EQ(links_->send(Incarnation{77}, wire::Goodbye{Incarnation{5}}).code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(links_->connected(Incarnation{99})) << "the other one is as before";
  FakeRouter successor(context_, 78, address);
  ASSERT_TRUE(until({&successor, &other}, [&] { return links_->connected(Incarnation{78}); }));
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(RouterLinksTest, ARouterThatSaysGoodbyeIsGoneAndItsSuccessorTaken) {
  FakeRouter router(context_, 77);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  router.send("d0", wire::Goodbye{Incarnation{76}});  // of another life
  router.refuse("stopping");
  router.send("d0", wire::Goodbye{Incarnation{77}});
  testing::internal::CaptureStderr();
  const bool gone = until({&router}, [&] { return lost_ == std::vector<Incarnation>{{77}}; });
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(gone);
  EXPECT_EQ(links_->welcomed(), 0);
  EXPECT_EQ(log.find("router lost"), std::string::npos) << log;
  EXPECT_TRUE(messages_.empty()) << "the role does not see it";
  router.refuse("");
  EXPECT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
}

TEST_F(RouterLinksTest, AWelcomeFromAnotherLifeEndsTheOldOne) {
  FakeRouter router(context_, 77);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  router.send("d0", wire::Welcome{Incarnation{78}, true, ""});
  ASSERT_TRUE(until({&router}, [&] { return links_->connected(Incarnation{78}); }));
  EXPECT_EQ(lost_, std::vector<Incarnation>{{77}});
}

TEST_F(RouterLinksTest, RegistersAnewWhenTheRouterGaveItUp) {
  FakeRouter router(context_, 77);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
  const int registrations = router.registrations;
  router.send("d0", wire::Welcome{Incarnation{77}, false, "silent for too long"});
  ASSERT_TRUE(until({&router}, [&] {
    return router.registrations > registrations && links_->connected(Incarnation{77});
  }));
  EXPECT_EQ(lost_, std::vector<Incarnation>{{77}}) << "the router has forgotten its runs";
}

TEST_F(RouterLinksTest, ANameStandsForAllItsAddresses) {
  FakeRouter first(context_, 77);
  FakeRouter second(context_, 78, beside(first, "127.0.0.2"));
  connect({named(first)});
  EXPECT_TRUE(links_->poll_fds().empty());
  resolver_.answers["routers"] = {"127.0.0.1", "127.0.0.2", "::1"};
  ASSERT_TRUE(until({&first, &second}, [&] { return links_->welcomed() == 2; }));
  EXPECT_TRUE(links_->connected(Incarnation{77}) && links_->connected(Incarnation{78}));
  EXPECT_EQ(links_->poll_fds().size(), 4u) << "no link to a second family";
}

TEST_F(RouterLinksTest, FollowsANameOverTime) {
  FakeRouter first(context_, 77);
  std::optional<FakeRouter> second(std::in_place, context_, 78, beside(first, "127.0.0.2"));
  connect({named(first)});
  ASSERT_TRUE(until({&first}, [&] { return resolver_.asked > 3; })) << "asks until it resolves";
  EXPECT_EQ(links_->welcomed(), 0);
  resolver_.answers["routers"] = {"127.0.0.2"};
  ASSERT_TRUE(until({&first, &*second}, [&] { return links_->connected(Incarnation{78}); }));
  resolver_.answers["routers"] = {"127.0.0.1"};
  ASSERT_TRUE(until({&first, &*second}, [&] { return links_->connected(Incarnation{77}); }));
  EXPECT_TRUE(links_->connected(Incarnation{78})) << "its requests go on while it is there";
  resolver_.answers.erase("routers");
  const int asked = resolver_.asked;
  ASSERT_TRUE(until({&first, &*second}, [&] { return resolver_.asked > asked + 3; }));
  EXPECT_EQ(links_->welcomed(), 2) << "a name server that fails changes nothing";
  second.reset();
  ASSERT_TRUE(until({&first}, [&] { return links_->poll_fds().size() == 2; }));
  EXPECT_EQ(lost_, std::vector<Incarnation>{{78}});
  EXPECT_TRUE(links_->connected(Incarnation{77}));
}

TEST_F(RouterLinksTest, AnAddressThatFoundNoRoomGetsALinkOnceOthersHaveEnded) {
  std::vector<std::unique_ptr<FakeRouter>> routers;
  std::vector<FakeRouter*> all;
  std::vector<std::string> hosts;
  for (uint64_t i = 1; i <= 32; ++i) {
    hosts.push_back("127.0.0." + std::to_string(i));
    routers.push_back(
        i == 1 ? std::make_unique<FakeRouter>(context_, i)
               : std::make_unique<FakeRouter>(context_, i, beside(*routers[0], hosts.back())));
    all.push_back(routers.back().get());
  }
  connect({named(*routers[0])});
  resolver_.answers["routers"] = {hosts.begin(), hosts.begin() + 16};
  ASSERT_TRUE(until(all, [&] { return links_->welcomed() == 16; }));
  resolver_.answers["routers"] = {hosts.begin() + 16, hosts.end()};
  ASSERT_TRUE(until(all, [&] { return links_->welcomed() == 28; })) << "there is no room for more";
  all.erase(all.begin(), all.begin() + 16);
  routers.erase(routers.begin(), routers.begin() + 16);
  EXPECT_TRUE(until(all, [&] { return links_->welcomed() == 16 && lost_.size() == 16; }));
}

TEST_F(RouterLinksTest, AnAddressThatCannotBeConnectedDoesNotHideOthers) {
  FakeRouter router(context_, 77);
  connect({named(router)});
  resolver_.answers["routers"] = {"!", "127.0.0.1"};
  EXPECT_TRUE(until({&router}, [&] { return links_->welcomed() == 1; }));
}

TEST_F(RouterLinksTest, TwoAddressesOfOneRouterAreOneLink) {
  FakeRouter router(context_, 77, "tcp://0.0.0.0:*");
  connect({beside(router, "127.0.0.1"), beside(router, "127.0.0.2")});
  ASSERT_TRUE(until({&router}, [&] { return router.registrations >= 2; }));
  ASSERT_TRUE(until({&router}, [&] { return router.heartbeats.contains("d0"); }));
  EXPECT_EQ(links_->welcomed(), 1);
  const int registrations = router.registrations;
  router.heartbeats.clear();
  ASSERT_TRUE(until({&router}, [&] { return router.heartbeats.contains("d0"); }));
  EXPECT_EQ(router.registrations, registrations);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(RouterLinksTest, ARouterWithAnotherKeyIsNamedAndLeftAlone) {
  wire::Context keyed(
      wire::ClusterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").value());
  FakeRouter router(keyed, 77);
  connect({router.address()});
  ASSERT_TRUE(until({&router}, [&] { return !links_->refusal().empty(); }));
  EXPECT_THAT(links_->refusal(), testing::HasSubstr("set cluster.key_file"));
  EXPECT_EQ(router.registrations, 0);
  EXPECT_EQ(links_->welcomed(), 0);
}

TEST_F(RouterLinksTest, RefusesWhatIsNoAddress) {
  for (const char* address : {"nonsense", "tcp://a-name:1"}) {
    EXPECT_EQ(
        RouterLinks::connect(context_, {.addresses = {address}, .heartbeat = 10ms}).status().code(),
        StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace baton::worker
