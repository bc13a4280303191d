#include "common/worker/router_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/worker/testing/fake_resolver.h"

namespace baton::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RouterNamesTest : public testing::Test {
 protected:
  RouterNames parse(const std::vector<std::string>& routers) {
    return RouterNames::parse(routers, &resolver_, 5s).value();
  }
  FakeResolver resolver_;
  TimePoint now_{100s};
};

TEST_F(RouterNamesTest, AddressesStandForThemselvesAndAreNotAskedFor) {
  RouterNames names = parse(
      {"tcp://10.0.0.1:7800", "tcp://[fd00::1]:7800", "ipc:///run/baton/c", "tcp://10.0.0.1:7800"});
  EXPECT_THAT(names.addresses(),
              ElementsAre("tcp://10.0.0.1:7800", "tcp://[fd00::1]:7800", "ipc:///run/baton/c"));
  EXPECT_FALSE(names.update(now_));
  EXPECT_EQ(resolver_.asked, 0);
}

TEST_F(RouterNamesTest, AsksEveryFiveSecondsOnceANameIsKnown) {
  RouterNames names = parse({"tcp://routers:7800", "tcp://10.0.0.9:7800"});
  resolver_.answers["routers"] = {"10.0.0.2", "10.0.0.1"};
  EXPECT_TRUE(names.update(now_));
  EXPECT_THAT(names.addresses(),
              ElementsAre("tcp://10.0.0.1:7800", "tcp://10.0.0.2:7800", "tcp://10.0.0.9:7800"));
  EXPECT_FALSE(names.update(now_ + 4s));
  EXPECT_EQ(resolver_.asked, 1);
  resolver_.answers["routers"] = {"10.0.0.1", "10.0.0.2"};
  EXPECT_FALSE(names.update(now_ + 5s)) << "the order of the answer means nothing";
  EXPECT_EQ(resolver_.asked, 2);
  resolver_.answers["routers"] = {"10.0.0.3"};
  EXPECT_TRUE(names.update(now_ + 10s));
  EXPECT_THAT(names.addresses(), ElementsAre("tcp://10.0.0.3:7800", "tcp://10.0.0.9:7800"));
}

TEST_F(RouterNamesTest, AnUnknownNameIsAskedForEverySecond) {
  RouterNames names = parse({"tcp://routers:7800"});
  EXPECT_FALSE(names.update(now_));
  EXPECT_FALSE(names.update(now_ + 500ms));
  EXPECT_EQ(resolver_.asked, 1);
  EXPECT_FALSE(names.update(now_ + 1s));
  EXPECT_EQ(resolver_.asked, 2);
  resolver_.answers["routers"] = {"10.0.0.1"};
  EXPECT_TRUE(names.update(now_ + 2s));
}

TEST_F(RouterNamesTest, WhatWasKnownStaysWhileTheNameDoesNotResolve) {
  RouterNames names = parse({"tcp://routers:7800"});
  resolver_.answers["routers"] = {"10.0.0.1"};
  EXPECT_TRUE(names.update(now_));
  resolver_.answers.clear();
  EXPECT_FALSE(names.update(now_ + 5s));
  EXPECT_THAT(names.addresses(), ElementsAre("tcp://10.0.0.1:7800"));
}

TEST_F(RouterNamesTest, OneFamilyCounts) {
  RouterNames names = parse({"tcp://routers:7800"});
  resolver_.answers["routers"] = {"fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2"};
  EXPECT_TRUE(names.update(now_));
  EXPECT_THAT(names.addresses(), ElementsAre("tcp://10.0.0.1:7800", "tcp://10.0.0.2:7800"));
  resolver_.answers["routers"] = {"fd00::2", "fd00::1"};
  EXPECT_TRUE(names.update(now_ + 5s));
  EXPECT_THAT(names.addresses(), ElementsAre("tcp://[fd00::1]:7800", "tcp://[fd00::2]:7800"));
}

TEST_F(RouterNamesTest, HostileAnswersStayBounded) {
  RouterNames names = parse({"tcp://routers:7800"});
  for (int i = 0; i < 200; ++i) {
    resolver_.answers["routers"].push_back("10.0.0." + std::to_string(i));
  }
  EXPECT_TRUE(names.update(now_));
  EXPECT_EQ(names.addresses().size(), RouterNames::kMaxAddresses);
}

TEST_F(RouterNamesTest, RefusesTooManyAndNamesThatNobodyResolves) {
  EXPECT_EQ(RouterNames::parse(std::vector<std::string>(17, "tcp://a:1"), &resolver_, 5s)
                .status()
                .message(),
            "workers.routers: more than 16 routers");
  EXPECT_EQ(RouterNames::parse({"tcp://a:1"}, nullptr, 5s).status().message(),
            "'tcp://a:1' is a name, and nobody resolves it");
}

}  // namespace
}  // namespace baton::worker
