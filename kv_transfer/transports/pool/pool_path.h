#pragma once

// Puts between processes of one machine: the pools of a decode worker lie in files without a name
// (kv_cache::Backing::kShared), which a prefill worker opens through /proc and maps. Nobody but
// processes of the same user can. To send is to copy; the receiver's processor has no part in it.
//
// The right to write is a lock: a sender locks one byte of each file, at the place that its own
// address names, before it maps the file, and the kernel lets go of the lock when the mapping is
// gone: unmapped by close(), or with the process, a zombie's too. A receiver that sees no lock
// knows that the peer writes no more; one that sees it, that the peer still might, stopped or not.

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/random.h"
#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

class PoolPath final : public DataPath {
 public:
  // Of a receiver all pools are kShared: unsupported otherwise. Of a sender they give the shape of
  // the cache. They outlive the path.
  static Result<std::unique_ptr<PoolPath>> create(std::span<const kv_cache::KvPool* const> pools,
                                                  bool receiver, Random& random);
  ~PoolPath() override;

  std::string_view transport() const override { return "pool"; }
  const std::string& address() const override { return address_; }
  // Of a receiver's address: opens, locks and maps its pools. unavailable when that is not allowed.
  Result<PathPeer> connect(const std::string& address) override;
  Status check_lane(PathPeer) const override { return Status(); }
  bool puts() const override { return true; }
  std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const override;
  // Copies before it returns.
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override;
  void close(PathPeer peer) override;
  int progress(DataPathEvents& events) override;
  bool outstanding() const override { return !results_.empty(); }
  int poll_fd() const override { return idle_fd_; }
  bool arm() override { return results_.empty() && closed_.empty(); }

 private:
  struct Address;
  struct Peer {
    uint64_t lock = 0;                    // the byte that the peer locks, of a sender
    std::vector<kv_cache::KvPool> pools;  // of a receiver, mapped
    bool closing = false;
  };
  PoolPath(std::span<const kv_cache::KvPool* const> pools, bool receiver)
      : pools_(pools.begin(), pools.end()), receiver_(receiver) {}
  Result<kv_cache::KvPool> map(const Address& address, size_t rank) const;
  bool may_write(uint64_t lock) const;
  void look_at_locks();

  struct Ended {
    uint64_t cookie = 0;
    Status status;
  };
  const std::vector<const kv_cache::KvPool*> pools_;
  const bool receiver_;
  uint64_t lock_ = 0;  // our byte in the files of receivers
  std::string address_;
  int idle_fd_ = -1;  // never readable: a put needs no waking
  PathPeer next_peer_ = 1;
  std::unordered_map<PathPeer, Peer> peers_;
  std::deque<Ended> results_;      // ended, not told
  std::deque<PathPeer> closed_;    // closed, not told
  std::vector<PathPeer> fencing_;  // closing, and the peer may still write
};

}  // namespace baton::kv_transfer
