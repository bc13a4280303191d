#pragma once

// What peer_main.cc and the tests that start it agree on: pools large enough that a push takes a
// while, one sequence that fills them.

#include <numeric>
#include <string>
#include <vector>

#include "kv_transfer/test_worker.h"

namespace baton::kv_transfer {

inline TestShape peer_shape(bool shared) {
  TestShape shape;
  shape.layers = 16;
  shape.dim = 64;
  shape.blocks = 512;
  shape.shared = shared;
  return shape;
}

struct PeerPools {
  explicit PeerPools(const std::string& transport) : pools(peer_shape(transport == "pool")) {}

  TestPools pools;
  int tokens() const { return pools.shape().blocks * pools.shape().block_tokens; }
  std::vector<BlockId> table() const {
    std::vector<BlockId> all(static_cast<size_t>(pools.shape().blocks));
    std::iota(all.begin(), all.end(), BlockId{0});
    return all;
  }
};

inline AgentOptions peer_options(const TestPools& pools, wire::Role role,
                                 const std::string& transport) {
  AgentOptions options = role == wire::Role::kDecode ? test_options(pools, role, "d0", 22)
                                                     : test_options(pools, role, "p0", 11);
  options.transports = {transport};
  options.timeouts.handshake = 10s;
  return options;
}

inline OpenTransfer peer_transfer(const PeerPools& pools, const std::string& address) {
  OpenTransfer request;
  request.target = {"d0", Incarnation{22}, address};
  request.body = test_body(8, 1);
  request.kv_tokens = pools.tokens();
  request.blocks = pools.table();
  request.deadline = TimePoint::max();
  return request;
}

}  // namespace baton::kv_transfer
