#include "kv_transfer/faulty_path.h"

#include <algorithm>

namespace baton::kv_transfer {
namespace {

// Senders count their cookies from 1.
constexpr uint64_t kFirstDouble = uint64_t{1} << 63;

std::vector<std::byte> copy_of(std::span<const IoSlice> slices) {
  std::vector<std::byte> bytes(total_bytes(slices));
  const IoSlice whole{bytes.data(), bytes.size()};
  copy_slices(slices, {&whole, 1});
  return bytes;
}

}  // namespace

// Keeps the ends of doubles to itself.
class FaultyPath::Filter final : public DataPathEvents {
 public:
  Filter(FaultyPath& path, DataPathEvents& events) : path_(path), events_(events) {}
  Result<Placement> announced(std::span<const std::byte> header, size_t bytes) override {
    return events_.announced(header, bytes);
  }
  void malformed() override { events_.malformed(); }
  void placed(uint64_t id, const Status& status) override { events_.placed(id, status); }
  void sent(uint64_t cookie, const Status& status) override {
    path_.copies_.erase(cookie);
    if (cookie < kFirstDouble) {
      events_.sent(cookie, status);
    }
  }
  void peer_failed(PathPeer peer, const Status& status) override {
    events_.peer_failed(peer, status);
  }
  void peer_closed(PathPeer peer) override { events_.peer_closed(peer); }

 private:
  FaultyPath& path_;
  DataPathEvents& events_;
};

FaultyPath::FaultyPath(std::unique_ptr<DataPath> path, FaultPlan& plan, const Clock& clock)
    : path_(std::move(path)), plan_(plan), clock_(clock), next_double_(kFirstDouble) {}

void FaultyPath::send_copy(PathPeer peer, std::span<const std::byte> header,
                           std::vector<std::byte> bytes, std::span<const IoSlice> targets,
                           uint64_t cookie) {
  std::vector<std::byte>& kept = copies_[cookie] = std::move(bytes);
  const IoSlice whole{kept.data(), kept.size()};
  path_->send(peer, header, {&whole, 1}, targets, cookie);
}

void FaultyPath::send(PathPeer peer, std::span<const std::byte> header,
                      std::span<const IoSlice> slices, std::span<const IoSlice> targets,
                      uint64_t cookie) {
  const FaultChoice choice = plan_.at(FaultPoint::kData);
  switch (choice.kind) {
    case FaultKind::kDrop:
      ended_.emplace_back(cookie, Status());
      return;
    case FaultKind::kFail:
      ended_.emplace_back(cookie, internal_error("the fault plan failed it"));
      return;
    case FaultKind::kDelay:
    case FaultKind::kReorder:
      held_.push_back({clock_.now() + choice.delay,
                       peer,
                       {header.begin(), header.end()},
                       {slices.begin(), slices.end()},
                       {targets.begin(), targets.end()},
                       cookie});
      return;
    case FaultKind::kTruncate: {
      std::vector<std::byte> bytes = copy_of(slices);
      bytes.resize(bytes.size() / 2);
      send_copy(peer, header, std::move(bytes), targets, cookie);
      return;
    }
    case FaultKind::kCorrupt: {
      std::vector<std::byte> bytes = copy_of(slices);
      if (!bytes.empty()) {
        bytes[choice.dice % bytes.size()] ^= std::byte{1};
      }
      send_copy(peer, header, std::move(bytes), targets, cookie);
      return;
    }
    case FaultKind::kDuplicate:
      path_->send(peer, header, slices, targets, cookie);
      send_copy(peer, header, copy_of(slices), targets, next_double_++);
      return;
    case FaultKind::kNone:
    case FaultKind::kStop:
    case FaultKind::kKill:
      path_->send(peer, header, slices, targets, cookie);
      return;
  }
}

void FaultyPath::close(PathPeer peer) {
  std::erase_if(held_, [&](const Held& held) {
    if (held.peer != peer) {
      return false;
    }
    ended_.emplace_back(held.cookie, worker_lost("closed"));
    return true;
  });
  path_->close(peer);
}

int FaultyPath::progress(DataPathEvents& events) {
  int done = 0;
  // What close() ended must be told before peer_closed(), which the path tells.
  for (const auto& [cookie, status] : std::exchange(ended_, {})) {
    events.sent(cookie, status);
    ++done;
  }
  const TimePoint now = clock_.now();
  std::vector<Held> waiting;
  for (Held& held : std::exchange(held_, {})) {
    if (held.due > now) {
      waiting.push_back(std::move(held));
      continue;
    }
    path_->send(held.peer, held.header, held.slices, held.targets, held.cookie);
    ++done;
  }
  held_ = std::move(waiting);
  Filter filter(*this, events);
  return done + path_->progress(filter);
}

}  // namespace baton::kv_transfer
