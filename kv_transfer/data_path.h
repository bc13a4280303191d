#pragma once

// How bytes of KV travel between two agents. One implementation per transport family
// (transports/), all behind one contract test (data_path_contract_test.cc). A path belongs to one
// thread, from creation to destruction; nothing blocks except creation.
//
// The receiver decides about every message before one byte of it is placed: announced() sees the
// header and the length and says where the bytes go, or why not, and then the sender's request ends
// with an error. A sent() without error means "the memory may be reused", never "it arrived".
//
// A transport of puts differs: its sender writes into the receiver's pools by itself, where the
// receiver's GRANT said. There is no announced() and no placed(); sent() means that the bytes are
// there, and the sender tells the receiver so by message. Whoever was stopped in the middle of a
// write resumes it when it likes: at a receiver, peer_closed() comes when the peer can write no
// more, however long that takes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/kv_cache/kv_pool.h"

namespace baton::kv_transfer {

struct IoSlice {
  std::byte* data = nullptr;
  size_t bytes = 0;
};
size_t total_bytes(std::span<const IoSlice> slices);
// Copies the first `limit` bytes, all if there are fewer; `to` holds as many.
void copy_slices(std::span<const IoSlice> from, std::span<const IoSlice> to,
                 size_t limit = SIZE_MAX);

using PathPeer = uint32_t;  // of one path, never reused; 0 is invalid

// What progress() tells. Implementations must not call back into the path except close() and
// send().
class DataPathEvents {
 public:
  virtual ~DataPathEvents() = default;

  struct Placement {
    uint64_t id = 0;
    std::vector<IoSlice> slices;  // exactly the announced length; theirs until placed(id)
  };
  // A message waits to be placed. `header` is not aligned and gone after the call. An error
  // refuses.
  virtual Result<Placement> announced(std::span<const std::byte> header, size_t bytes) = 0;
  // A message outside the path's own rules came and was dropped.
  virtual void malformed() = 0;
  // The bytes of a placement are there, or will never be: its memory is not touched any more.
  virtual void placed(uint64_t id, const Status& status) = 0;
  // A send() ended: its memory is not read any more.
  virtual void sent(uint64_t cookie, const Status& status) = 0;
  // The peer is gone or the link is broken; close() it.
  virtual void peer_failed(PathPeer peer, const Status& status) = 0;
  // After close(): every send() to it has ended.
  virtual void peer_closed(PathPeer peer) = 0;
};

class DataPath {
 public:
  virtual ~DataPath() = default;

  virtual std::string_view transport() const = 0;  // "ucx-posix"
  // What a peer needs for connect(). Opaque bytes.
  virtual const std::string& address() const = 0;
  // Both sides connect, so that both see a death. `address` comes from outside and is checked.
  virtual Result<PathPeer> connect(const std::string& address) = 0;
  // The lane to a peer, as the transport reports it: an error when it is not transport()'s.
  virtual Status check_lane(PathPeer peer) const = 0;

  // Whether this is a transport of puts.
  virtual bool puts() const = 0;
  // The pools of a peer that a put may write, by rank; empty where none may. Valid until close().
  virtual std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const = 0;

  // Header and slice lists are copied; the memory behind the slices is borrowed until
  // sent(cookie). Failures come by sent() too. `targets` lie in pools_of(peer) and are empty where
  // the receiver places.
  virtual void send(PathPeer peer, std::span<const std::byte> header,
                    std::span<const IoSlice> slices, std::span<const IoSlice> targets,
                    uint64_t cookie) = 0;
  // Ends everything with a peer, by force. peer_closed() follows.
  virtual void close(PathPeer peer) = 0;

  // Delivers what happened; the number of things done.
  virtual int progress(DataPathEvents& events) = 0;
  // Whether there are requests under way, so that polling pays.
  virtual bool outstanding() const = 0;
  // To sleep: arm() until true, then wait for the descriptor. False: progress() first.
  virtual int poll_fd() const = 0;
  virtual bool arm() = 0;
};

}  // namespace baton::kv_transfer
