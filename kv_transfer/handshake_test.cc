#include "kv_transfer/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kv_transfer/test_worker.h"
#include "kv_transfer/transports/inproc/inproc_path.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() : path_(InprocPath::create(hub_).value()) {
    DataPath* paths[] = {path_.get()};
    const HostIdentity host = this_process();
    p_ = make_hello(test_options(pools_, wire::Role::kPrefill, "p0", 11), host, paths);
    d_ = make_hello(test_options(pools_, wire::Role::kDecode, "d0", 22), host, paths);
  }
  std::string refusal() const {
    const Result<Agreement> agreement = agree(p_, d_);
    EXPECT_FALSE(agreement.ok());
    return agreement.status().message();
  }

  TestPools pools_{TestShape{}};
  InprocHub hub_;
  std::unique_ptr<DataPath> path_;
  wire::Hello p_, d_;
};

TEST_F(HandshakeTest, EqualWorkersAgree) {
  const Result<Agreement> agreement = agree(p_, d_);
  ASSERT_TRUE(agreement.ok()) << agreement.status().to_string();
  EXPECT_EQ(agreement->transport, "inproc");
  EXPECT_EQ(agreement->plan.unit_tokens(), 32);
  EXPECT_TRUE(agreement->digest);
  EXPECT_EQ(path_address(d_, "inproc"), path_->address());
  EXPECT_EQ(path_address(d_, "ucx-posix"), std::nullopt);
}

TEST_F(HandshakeTest, DegreesAndBlockSizesMayDiffer) {
  p_.heads = {{0, 2}, {1, 3}};
  d_.block_tokens = 128;
  const Result<Agreement> agreement = agree(p_, d_);
  ASSERT_TRUE(agreement.ok()) << agreement.status().to_string();
  EXPECT_EQ(agreement->plan.unit_tokens(), 128);
}

TEST_F(HandshakeTest, DigestsAreOnWhenEitherSideWantsThem) {
  p_.digest = false;
  EXPECT_TRUE(agree(p_, d_)->digest);
  d_.digest = false;
  EXPECT_FALSE(agree(p_, d_)->digest);
}

TEST_F(HandshakeTest, RefusalsNameBothValues) {
  d_.proto_version = 9;
  EXPECT_THAT(refusal(), HasSubstr("protocol versions differ: prefill worker has 1, decode "
                                   "worker has 9"));
  d_.proto_version = p_.proto_version;
  d_.model_hash = U128{3, 4};
  EXPECT_THAT(refusal(), HasSubstr("models differ: prefill worker has "
                                   "00000000000000010000000000000002"));
  d_.model_hash = p_.model_hash;
  d_.numerics = "fast";
  EXPECT_THAT(refusal(), HasSubstr("numerics differ"));
  d_.numerics = p_.numerics;
  d_.segments = 4;
  EXPECT_THAT(refusal(), HasSubstr("reduction_segments differ: prefill worker has 2, decode "
                                   "worker has 4"));
  d_.segments = p_.segments;
  d_.groups[0].k_dim = 128;
  EXPECT_THAT(refusal(), HasSubstr("cache groups differ"));
  d_.groups = p_.groups;
  d_.layouts = {2};
  EXPECT_THAT(refusal(), HasSubstr("d0 does not offer the layout pairs32"));
  d_.layouts = p_.layouts;
  d_.transports = {"ucx-tcp"};
  EXPECT_THAT(refusal(), HasSubstr("transports differ: prefill worker has inproc, decode worker "
                                   "has ucx-tcp"));
}

TEST_F(HandshakeTest, SharedMemoryIsTakenOnlyWhereBothSeeTheSame) {
  p_.transports = d_.transports = {"ucx-posix"};
  EXPECT_EQ(agree(p_, d_)->transport, "ucx-posix");
  const std::string advice =
      "; name ucx-tcp in transfer.transports, and their network in transfer.devices";
  const wire::Hello same = d_;
  struct Case {
    std::string wire::Hello::* field;
    std::string why;
  };
  for (const Case& c :
       {Case{&wire::Hello::boot_id, "they run on different machines"},
        Case{&wire::Hello::pid_namespace, "their pid namespaces differ"},
        Case{&wire::Hello::shared_memory, "they see different mounts or are different users"}}) {
    for (const char* value : {"other", ""}) {
      d_ = same;
      d_.*c.field = value;
      EXPECT_EQ(refusal(), "ucx-posix: p0 and d0 share no /dev/shm (" + c.why + ")" + advice);
      p_.transports = d_.transports = {"ucx-posix", "ucx-tcp"};
      p_.devices = d_.devices = {"eth0"};
      EXPECT_EQ(agree(p_, d_)->transport, "ucx-tcp");
      p_.transports = d_.transports = {"ucx-posix"};
    }
  }
}

TEST_F(HandshakeTest, LoopbackServesOneNetworkNamespace) {
  p_.transports = d_.transports = {"ucx-tcp"};
  p_.devices = d_.devices = {"lo"};
  EXPECT_EQ(agree(p_, d_)->transport, "ucx-tcp");
  d_.network_namespace = "net:[1]";
  const std::string refused =
      "ucx-tcp: p0 and d0 share no loopback device; name their network in transfer.devices";
  EXPECT_EQ(refusal(), refused);
  d_.devices = {"lo", "eth0"};
  EXPECT_EQ(refusal(), refused);
  p_.devices = {"eth0"};
  EXPECT_EQ(agree(p_, d_)->transport, "ucx-tcp");
  d_.network_namespace = p_.network_namespace;
  d_.boot_id = "elsewhere";
  d_.devices = {"lo"};
  EXPECT_EQ(refusal(), refused);
}

TEST_F(HandshakeTest, TheSendersBestCommonTransportIsTaken) {
  p_.transports = {"ucx-tcp", "ucx-posix"};
  d_.transports = {"ucx-posix", "ucx-tcp"};
  EXPECT_EQ(agree(p_, d_)->transport, "ucx-tcp");
}

TEST_F(HandshakeTest, ImpossibleShapesAreRefusedBeforeTheyAreUsed) {
  const wire::Hello good = d_;
  const std::vector<std::function<void(wire::Hello&)>> changes = {
      [](wire::Hello& h) { h.groups.clear(); },
      [](wire::Hello& h) { h.groups.push_back(h.groups[0]); },
      [](wire::Hello& h) { h.groups[0].layers = 0xFFFFFFFF; },
      [](wire::Hello& h) { h.groups[0].kv_heads = 0; },
      [](wire::Hello& h) { h.groups[0].k_dim = 1u << 31; },
      [](wire::Hello& h) { h.block_tokens = 1u << 30; },
      [](wire::Hello& h) { h.block_tokens = 0; },
      [](wire::Hello& h) { h.heads.clear(); },
      [](wire::Hello& h) { h.heads.assign(1'000, {0, 1}); },
      [](wire::Hello& h) { h.heads = {{2, 1}}; },
      [](wire::Hello& h) { h.heads = {{0, 0xFFFFFFFF}}; },
      [](wire::Hello& h) { h.incarnation = Incarnation{0}; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    d_ = good;
    changes[i](d_);
    EXPECT_FALSE(agree(p_, d_).ok()) << i;
    EXPECT_FALSE(agree(d_, p_).ok()) << i;
  }
}

TEST_F(HandshakeTest, AddressesThatMakeNoSenseAreNone) {
  const std::string good = d_.worker_address;
  for (size_t length = 0; length < good.size(); ++length) {
    d_.worker_address = good.substr(0, length);
    EXPECT_EQ(path_address(d_, "inproc"), std::nullopt) << length;
  }
  d_.worker_address = std::string(3, '\xff');
  EXPECT_EQ(path_address(d_, "inproc"), std::nullopt);
}

}  // namespace
}  // namespace baton::kv_transfer
