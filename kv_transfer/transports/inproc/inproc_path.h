#pragma once

// Data path between agents of one process: the receiver's thread copies. It keeps the whole
// contract of data_path.h (validation before placement, memory borrowed until sent(), forced close,
// peers that vanish), so that tests of the protocol need neither UCX nor a second process.

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

class InprocPath;

// Where paths of one process find each other by address. Thread-safe; outlives its paths.
class InprocHub {
 public:
  // What happens to DATA on its way: it never arrives, though its sender is told so; a bit of it is
  // another; its end is missing.
  enum class Damage : uint8_t { kNone, kLost, kFlipped, kCut };

  InprocHub() = default;
  InprocHub(const InprocHub&) = delete;
  InprocHub& operator=(const InprocHub&) = delete;

  // To the next so many.
  void damage(Damage kind, int messages);
  int left_to_damage();

 private:
  friend class InprocPath;
  struct Message {  // a DATA on its way, or its end on the way back
    std::string from;
    PathPeer reply_peer = 0;  // the sender's
    std::vector<std::byte> header;
    std::vector<IoSlice> slices;
    uint64_t cookie = 0;
    bool is_result = false;
    Status status;
  };
  struct Mailbox {
    std::deque<Message> messages;
    int wake_fd = -1;  // eventfd
  };
  // False when nobody has that address.
  bool post(const std::string& to, Message message);
  Damage next_damage();

  Mutex mutex_;
  uint64_t next_address_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<std::string, Mailbox> mailboxes_ GUARDED_BY(mutex_);
  Damage damage_ GUARDED_BY(mutex_) = Damage::kNone;
  int left_to_damage_ GUARDED_BY(mutex_) = 0;
};

class InprocPath final : public DataPath {
 public:
  static Result<std::unique_ptr<InprocPath>> create(InprocHub& hub);
  ~InprocPath() override;

  std::string_view transport() const override { return "inproc"; }
  const std::string& address() const override { return address_; }
  Result<PathPeer> connect(const std::string& address) override;
  Status check_lane(PathPeer) const override { return Status(); }
  bool puts() const override { return false; }
  std::span<const kv_cache::KvPool> pools_of(PathPeer) const override { return {}; }
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override;
  void close(PathPeer peer) override;
  int progress(DataPathEvents& events) override;
  bool outstanding() const override { return !sends_.empty() || !results_.empty(); }
  int poll_fd() const override { return wake_fd_; }
  bool arm() override;

 private:
  struct Peer {
    std::string address;
    bool failed = false;  // told
  };
  explicit InprocPath(InprocHub& hub) : hub_(hub) {}
  void take_back_unread(PathPeer peer, const std::string& address);
  std::deque<InprocHub::Message> take_mail();
  void receive(const InprocHub::Message& message, DataPathEvents& events);
  int watch_peers(DataPathEvents& events);
  int deliver_results(DataPathEvents& events);

  struct Ended {
    uint64_t cookie = 0;
    Status status;
  };
  InprocHub& hub_;
  std::string address_;
  int wake_fd_ = -1;
  PathPeer next_peer_ = 1;
  std::unordered_map<PathPeer, Peer> peers_;
  std::unordered_map<uint64_t, PathPeer> sends_;  // cookie -> peer, not ended
  std::deque<Ended> results_;                     // ended, not told
  std::deque<PathPeer> closed_;                   // closed, not told
};

}  // namespace baton::kv_transfer
