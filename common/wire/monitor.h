#pragma once

// What a ZeroMQ socket's connections go through in the background: broken ones, and handshakes that
// fail. Belongs to the thread of its socket.

#include <string>

#include "common/base/status.h"

namespace baton::wire {

// Why a handshake failed. With a cluster key the reasons are told apart as far as the
// protocol lets one see them: a listener that cannot read a greeting closes without a word.
enum class Handshake : uint8_t {
  kNone,       // it has not
  kOtherKey,   // what it sent cannot be read with our key, or it was not admitted
  kMechanism,  // one side has a key, the other has none
  kClosed,     // the peer closed in the middle
  kSilent,     // nothing came in time, or something that is no ZeroMQ
};

class Monitor {
 public:
  static Result<Monitor> attach(void* context, void* socket);
  Monitor() = default;
  ~Monitor();
  Monitor(Monitor&& other) noexcept;
  Monitor& operator=(Monitor&& other) noexcept;

  int poll_fd() const;
  struct Seen {
    bool disconnected = false;
    bool done = false;                 // a handshake succeeded
    int failed = 0;                    // handshakes, since the last that succeeded
    Handshake why = Handshake::kNone;  // of these, the clearest reason
  };
  // Everything since the last call; does not block.
  Seen drain();
  // Before the socket is closed.
  void release();

 private:
  void* socket_ = nullptr;
  void* events_ = nullptr;
};

// For a log line. `own_key`: whether this process has a key.
std::string explain(Handshake how, bool own_key);

}  // namespace baton::wire
