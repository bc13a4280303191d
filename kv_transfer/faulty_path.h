#pragma once

// A data path that loses, holds back, doubles, cuts and damages DATA, as a fault plan says, in
// front of a real one (builds with BATON_FAULTS). It keeps the contract of data_path.h: each send()
// ends once, its memory is borrowed until then, and peer_closed() comes after all of a peer's ends.

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fault_point.h"
#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

class FaultyPath final : public DataPath {
 public:
  // All outlive it.
  FaultyPath(std::unique_ptr<DataPath> path, FaultPlan& plan, const Clock& clock);

  std::string_view transport() const override { return path_->transport(); }
  const std::string& address() const override { return path_->address(); }
  Result<PathPeer> connect(const std::string& address) override { return path_->connect(address); }
  Status check_lane(PathPeer peer) const override { return path_->check_lane(peer); }
  bool puts() const override { return path_->puts(); }
  std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const override {
    return path_->pools_of(peer);
  }
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override;
  void close(PathPeer peer) override;
  int progress(DataPathEvents& events) override;
  bool outstanding() const override { return path_->outstanding() || !ended_.empty(); }
  int poll_fd() const override { return path_->poll_fd(); }
  bool arm() override { return ended_.empty() && path_->arm(); }

 private:
  class Filter;
  struct Held {
    TimePoint due;
    PathPeer peer = 0;
    std::vector<std::byte> header;
    std::vector<IoSlice> slices;
    std::vector<IoSlice> targets;
    uint64_t cookie = 0;
  };
  void send_copy(PathPeer peer, std::span<const std::byte> header, std::vector<std::byte> bytes,
                 std::span<const IoSlice> targets, uint64_t cookie);

  std::unique_ptr<DataPath> path_;
  FaultPlan& plan_;
  const Clock& clock_;
  uint64_t next_double_;
  std::vector<Held> held_;
  std::vector<std::pair<uint64_t, Status>> ended_;               // not told
  std::unordered_map<uint64_t, std::vector<std::byte>> copies_;  // by cookie, until it has ended
};

}  // namespace baton::kv_transfer
