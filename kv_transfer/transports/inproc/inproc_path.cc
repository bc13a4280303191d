#include "kv_transfer/transports/inproc/inproc_path.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace baton::kv_transfer {
namespace {

void wake(int fd) {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
}

void drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof(count));
}

}  // namespace

bool InprocHub::post(const std::string& to, Message message) {
  MutexLock lock(mutex_);
  const auto it = mailboxes_.find(to);
  if (it == mailboxes_.end()) {
    return false;
  }
  it->second.messages.push_back(std::move(message));
  wake(it->second.wake_fd);
  return true;
}

void InprocHub::damage(Damage kind, int messages) {
  MutexLock lock(mutex_);
  damage_ = kind;
  left_to_damage_ = messages;
}

int InprocHub::left_to_damage() {
  MutexLock lock(mutex_);
  return left_to_damage_;
}

InprocHub::Damage InprocHub::next_damage() {
  MutexLock lock(mutex_);
  if (left_to_damage_ == 0) {
    return Damage::kNone;
  }
  --left_to_damage_;
  return damage_;
}

Result<std::unique_ptr<InprocPath>> InprocPath::create(InprocHub& hub) {
  std::unique_ptr<InprocPath> path(new InprocPath(hub));
  path->wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (path->wake_fd_ < 0) {
    return internal_error(std::string("eventfd: ") + std::strerror(errno));
  }
  MutexLock lock(hub.mutex_);
  path->address_ = "inproc-" + std::to_string(hub.next_address_++);
  hub.mailboxes_[path->address_].wake_fd = path->wake_fd_;
  return path;
}

InprocPath::~InprocPath() {
  std::deque<InprocHub::Message> left;
  {
    MutexLock lock(hub_.mutex_);
    const auto it = hub_.mailboxes_.find(address_);
    if (it != hub_.mailboxes_.end()) {
      left = std::move(it->second.messages);
      hub_.mailboxes_.erase(it);
    }
  }
  // Senders whose messages were never looked at must not wait for an answer.
  for (InprocHub::Message& message : left) {
    if (!message.is_result) {
      InprocHub::Message answer;
      answer.cookie = message.cookie;
      answer.is_result = true;
      answer.status = worker_lost("the peer's data path is closed");
      hub_.post(message.from, std::move(answer));
    }
  }
  ::close(wake_fd_);
}

Result<PathPeer> InprocPath::connect(const std::string& address) {
  MutexLock lock(hub_.mutex_);
  if (!hub_.mailboxes_.contains(address)) {
    return worker_lost("no agent of this process has the address that the peer named");
  }
  const PathPeer peer = next_peer_++;
  peers_[peer].address = address;
  return peer;
}

void InprocPath::send(PathPeer peer, std::span<const std::byte> header,
                      std::span<const IoSlice> slices, std::span<const IoSlice>, uint64_t cookie) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) {
    results_.push_back({cookie, worker_lost("the peer is closed")});
    return;
  }
  InprocHub::Message message;
  message.from = address_;
  message.reply_peer = peer;
  message.header.assign(header.begin(), header.end());
  message.slices.assign(slices.begin(), slices.end());
  message.cookie = cookie;
  if (hub_.post(it->second.address, std::move(message))) {
    sends_[cookie] = peer;
  } else {
    results_.push_back({cookie, worker_lost("the peer's data path is closed")});
  }
}

// The memory of messages that the other side has not looked at is still borrowed, so closing takes
// them back out of its mailbox; one that is being copied at this moment ends by its own answer.
void InprocPath::take_back_unread(PathPeer peer, const std::string& address) {
  MutexLock lock(hub_.mutex_);
  const auto box = hub_.mailboxes_.find(address);
  if (box == hub_.mailboxes_.end()) {
    return;
  }
  std::erase_if(box->second.messages, [&](const InprocHub::Message& message) {
    if (message.is_result || message.from != address_ || message.reply_peer != peer) {
      return false;
    }
    sends_.erase(message.cookie);
    results_.push_back({message.cookie, worker_lost("closed")});
    return true;
  });
}

void InprocPath::close(PathPeer peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) {
    return;
  }
  take_back_unread(peer, it->second.address);
  peers_.erase(it);
  closed_.push_back(peer);
  wake(wake_fd_);
}

std::deque<InprocHub::Message> InprocPath::take_mail() {
  MutexLock lock(hub_.mutex_);
  drain(wake_fd_);
  std::deque<InprocHub::Message> mail;
  mail.swap(hub_.mailboxes_[address_].messages);
  return mail;
}

void InprocPath::receive(const InprocHub::Message& message, DataPathEvents& events) {
  InprocHub::Message answer;
  answer.cookie = message.cookie;
  answer.is_result = true;
  const InprocHub::Damage damage = hub_.next_damage();
  if (damage == InprocHub::Damage::kLost) {
    hub_.post(message.from, std::move(answer));
    return;
  }
  const size_t bytes = total_bytes(message.slices) / (damage == InprocHub::Damage::kCut ? 2 : 1);
  Result<DataPathEvents::Placement> placement = events.announced(message.header, bytes);
  if (placement.ok()) {
    copy_slices(message.slices, placement->slices);
    if (damage == InprocHub::Damage::kFlipped) {
      *placement->slices.front().data ^= std::byte{1};
    }
    events.placed(placement->id, Status());
  } else {
    answer.status = placement.status().with_context("rejected by the receiver");
  }
  hub_.post(message.from, std::move(answer));
}

// A peer whose mailbox is gone has ended.
int InprocPath::watch_peers(DataPathEvents& events) {
  std::vector<PathPeer> failed;
  {
    MutexLock lock(hub_.mutex_);
    for (auto& [id, peer] : peers_) {
      if (!peer.failed && !hub_.mailboxes_.contains(peer.address)) {
        peer.failed = true;
        failed.push_back(id);
      }
    }
  }
  for (const PathPeer peer : failed) {
    events.peer_failed(peer, worker_lost("the peer's data path is closed"));
  }
  return static_cast<int>(failed.size());
}

int InprocPath::deliver_results(DataPathEvents& events) {
  int done = 0;
  while (!results_.empty()) {
    const Ended ended = std::move(results_.front());
    results_.pop_front();
    events.sent(ended.cookie, ended.status);
    ++done;
  }
  // A peer is closed when none of its sends is left; the last one's answer may still be on its way.
  std::deque<PathPeer> waiting;
  waiting.swap(closed_);
  for (const PathPeer peer : waiting) {
    bool busy = false;
    for (const auto& [cookie, owner] : sends_) {
      busy = busy || owner == peer;
    }
    if (busy) {
      closed_.push_back(peer);
      continue;
    }
    events.peer_closed(peer);
    ++done;
  }
  return done;
}

int InprocPath::progress(DataPathEvents& events) {
  int done = 0;
  for (const InprocHub::Message& message : take_mail()) {
    if (!message.is_result) {
      receive(message, events);
    } else if (sends_.erase(message.cookie) == 1) {
      results_.push_back({message.cookie, message.status});
    }
    ++done;
  }
  done += watch_peers(events);
  return done + deliver_results(events);
}

bool InprocPath::arm() {
  MutexLock lock(hub_.mutex_);
  return results_.empty() && hub_.mailboxes_[address_].messages.empty();
}

}  // namespace baton::kv_transfer
