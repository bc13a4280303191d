#include "kv_transfer/transports/pool/pool_path.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/file_descriptor.h"

namespace baton::kv_transfer {
namespace {

using kv_cache::HeadRange;
using kv_cache::KvLayout;
using kv_cache::KvPool;

constexpr uint64_t kMagic = 0x31'4c'4f'4f'50'54'42;  // "BTPOOL1"
constexpr size_t kMaxRanks = 255;
// Locks lie where no file is that long, and where an offset of a file still may.
constexpr uint64_t kLockBegin = uint64_t{1} << 60;

struct flock one_byte(uint64_t at) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(at);
  lock.l_len = 1;
  return lock;
}

}  // namespace

// On the wire: 64-bit words, little endian, in the order of the members; a count before each list.
struct PoolPath::Address {
  struct Rank {
    uint64_t fd = 0;
    uint64_t inode = 0;
    HeadRange heads;
  };
  uint64_t pid = 0;
  uint64_t lock = 0;  // 0 of a receiver
  uint64_t block_tokens = 0;
  std::vector<int> blocks;  // of each cache group
  std::vector<Rank> ranks;

  std::string pack() const;
  static Result<Address> unpack(std::string_view bytes);
};

std::string PoolPath::Address::pack() const {
  std::string packed;
  const auto put = [&packed](uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8) {
      packed += static_cast<char>(value & 0xff);
    }
  };
  put(kMagic);
  put(pid);
  put(lock);
  put(block_tokens);
  put(blocks.size());
  for (const int count : blocks) {
    put(static_cast<uint64_t>(count));
  }
  put(ranks.size());
  for (const Rank& rank : ranks) {
    put(rank.fd);
    put(rank.inode);
    put(static_cast<uint64_t>(rank.heads.begin));
    put(static_cast<uint64_t>(rank.heads.end));
  }
  return packed;
}

// Every number of an address comes from outside and has a limit; what is missing reads as too much.
Result<PoolPath::Address> PoolPath::Address::unpack(std::string_view bytes) {
  bool good = true;
  const auto take = [&](uint64_t limit) {
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0 && bytes.size() >= 8;) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    good = good && bytes.size() >= 8 && value <= limit;
    bytes.remove_prefix(std::min<size_t>(8, bytes.size()));
    return good ? value : 0;
  };
  constexpr uint64_t kInt = INT32_MAX;
  Address address;
  good = take(UINT64_MAX) == kMagic;
  address.pid = take(kInt);
  address.lock = take(kLockBegin * 2 - 1);
  address.block_tokens = take(kInt);
  for (uint64_t left = take(kv_cache::kMaxGroups); left > 0; --left) {
    address.blocks.push_back(static_cast<int>(take(kInt)));
  }
  for (uint64_t left = take(kMaxRanks); left > 0; --left) {
    Rank rank;
    rank.fd = take(kInt);
    rank.inode = take(UINT64_MAX);
    rank.heads.begin = static_cast<int>(take(kInt));
    rank.heads.end = static_cast<int>(take(kInt));
    address.ranks.push_back(rank);
  }
  if (!good || !bytes.empty()) {
    return incompatible("the peer's address for the transport pool makes no sense");
  }
  return address;
}

Result<std::unique_ptr<PoolPath>> PoolPath::create(std::span<const KvPool* const> pools,
                                                   bool receiver, Random& random) {
  std::unique_ptr<PoolPath> path(new PoolPath(pools, receiver));
  path->idle_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (path->idle_fd_ < 0) {
    return internal_error(std::string("eventfd: ") + std::strerror(errno));
  }
  Address own;
  own.pid = static_cast<uint64_t>(getpid());
  if (!receiver) {
    path->lock_ = own.lock = kLockBegin | random.next() >> 4;
    path->address_ = own.pack();
    return path;
  }
  own.block_tokens = static_cast<uint64_t>(pools.front()->layout().block_tokens);
  own.blocks = pools.front()->group_blocks();
  for (const KvPool* pool : pools) {
    struct stat info{};
    if (pool->shared_fd() < 0 || fstat(pool->shared_fd(), &info) != 0) {
      return unsupported("transport pool: the KV pool of this worker is no file to let others in");
    }
    own.ranks.push_back({static_cast<uint64_t>(pool->shared_fd()), info.st_ino, pool->heads()});
  }
  path->address_ = own.pack();
  return path;
}

PoolPath::~PoolPath() { ::close(idle_fd_); }

// The file is looked at before it is opened: to open something else may have effects.
Result<KvPool> PoolPath::map(const Address& address, size_t rank) const {
  const Address::Rank& of_rank = address.ranks[rank];
  const std::string name =
      "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(of_rank.fd);
  struct stat info{};
  if (stat(name.c_str(), &info) != 0) {
    return unavailable("the peer's KV pool " + name + ": " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode) || info.st_ino != of_rank.inode) {
    return unavailable("the peer's KV pool " + name + " is another file");
  }
  const FileDescriptor file(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.open() || fstat(file.get(), &info) != 0) {
    return unavailable("the peer's KV pool " + name + ": " + std::strerror(errno));
  }
  if (info.st_ino != of_rank.inode) {
    return unavailable("the peer's KV pool " + name + " is another file");
  }
  // Before it is mapped: without a lock the receiver takes us for gone.
  struct flock lock = one_byte(lock_);
  if (fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
    return unavailable("the peer's KV pool cannot be locked: " + std::string(strerror(errno)));
  }
  KvLayout layout = pools_.front()->layout();
  layout.block_tokens = static_cast<int>(address.block_tokens);
  return KvPool::attach(layout, of_rank.heads, address.blocks, file.get());
}

Result<PathPeer> PoolPath::connect(const std::string& packed) {
  BATON_ASSIGN_OR_RETURN(const Address address, Address::unpack(packed));
  if (receiver_ == address.ranks.empty() && receiver_ == (address.lock >= kLockBegin)) {
    // A peer that connects anew has given up its old mapping, and has no new one before it hears of
    // us: the moment to see the old lock gone.
    look_at_locks();
    Peer peer;
    peer.lock = address.lock;
    for (size_t rank = 0; rank < address.ranks.size(); ++rank) {
      BATON_ASSIGN_OR_RETURN(KvPool pool, map(address, rank));
      peer.pools.push_back(std::move(pool));
    }
    const PathPeer id = next_peer_++;
    peers_.emplace(id, std::move(peer));
    return id;
  }
  return incompatible("transport pool: the peer is of the same role");
}

std::span<const KvPool> PoolPath::pools_of(PathPeer peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? std::span<const KvPool>() : it->second.pools;
}

void PoolPath::send(PathPeer peer, std::span<const std::byte>, std::span<const IoSlice> slices,
                    std::span<const IoSlice> targets, uint64_t cookie) {
  const auto it = peers_.find(peer);
  if (it == peers_.end() || it->second.closing || it->second.pools.empty()) {
    results_.push_back({cookie, worker_lost("the peer is closed")});
    return;
  }
  copy_slices(slices, targets, total_bytes(targets));
  results_.push_back({cookie, Status()});
}

void PoolPath::close(PathPeer id) {
  const auto it = peers_.find(id);
  if (it == peers_.end() || it->second.closing) {
    return;
  }
  Peer& peer = it->second;
  peer.closing = true;
  peer.pools.clear();
  if (receiver_) {
    fencing_.push_back(id);
  } else {
    closed_.push_back(id);
  }
}

// Whether a sender with this lock has a pool of ours mapped.
bool PoolPath::may_write(uint64_t at) const {
  for (const KvPool* pool : pools_) {
    struct flock lock = one_byte(at);
    if (fcntl(pool->shared_fd(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) {
      return true;
    }
  }
  return false;
}

void PoolPath::look_at_locks() {
  std::erase_if(fencing_, [&](PathPeer peer) {
    if (may_write(peers_.at(peer).lock)) {
      return false;
    }
    closed_.push_back(peer);
    return true;
  });
}

int PoolPath::progress(DataPathEvents& events) {
  int done = 0;
  for (; !results_.empty(); ++done) {
    const Ended ended = std::move(results_.front());
    results_.pop_front();
    events.sent(ended.cookie, ended.status);
  }
  look_at_locks();
  for (; !closed_.empty(); ++done) {
    const PathPeer peer = closed_.front();
    closed_.pop_front();
    peers_.erase(peer);
    events.peer_closed(peer);
  }
  return done;
}

}  // namespace baton::kv_transfer
