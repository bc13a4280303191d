#pragma once

// Sessions: one per pair of incarnations. A session is made by HELLO, kept alive by heartbeats, and
// ends once, for good, by whatever notices first: the peer's process handle, its socket, its
// heartbeat, or the transport. It never outlives either incarnation. After its end it stays in the
// table until the data path is closed and no transfer and no ticket uses it.
//
//   Connecting -> Ready -> Dead

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_transfer/core_context.h"
#include "kv_transfer/handshake.h"

namespace baton::kv_transfer {

using SessionId = uint32_t;  // never reused; 0 is invalid

enum class SessionState : uint8_t { kConnecting, kReady, kDead };

struct Session {
  SessionId id = 0;
  bool outbound = false;  // we push to this peer
  ChannelId channel = 0;
  std::string name;
  Incarnation incarnation;
  std::string address;  // of an outbound session
  SessionState state = SessionState::kConnecting;

  std::string transport;          // being opened
  std::optional<Agreement> link;  // once ready
  DataPath* path = nullptr;
  PathPeer path_peer = 0;
  bool path_open = false;
  std::vector<const kv_cache::KvPool*> put_pools;  // of the peer, where we write into them
  std::vector<PassedOver> passed_over;             // transports that we tried in vain

  TimePoint handshake_deadline;
  TimePoint last_heard;
  TimePoint next_heartbeat;
  ProcessWatch process;  // of a peer on this machine

  int users = 0;  // transfers or tickets

  // Of an outbound session: transfers with something to post, and how much is under way.
  std::deque<TransferId> ready;
  size_t in_flight_bytes = 0;

  bool is_ready() const { return state == SessionState::kReady; }
  bool puts() const { return path != nullptr && path->puts(); }
};

class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  virtual void session_ready(Session& session, TimePoint now) = 0;
  virtual void session_lost(Session& session, const Status& why, TimePoint now) = 0;
  // Nothing of the session is under way on the data path any more.
  virtual void session_closed(Session& session, TimePoint now) = 0;
};

class SessionTable {
 public:
  SessionTable(const CoreContext& context, std::vector<DataPath*> paths, SessionObserver& observer);

  // The session to a decode worker; begins to connect if there is none. unavailable while a failed
  // address rests before the next try.
  Result<Session*> open(const wire::DecodeTarget& target, TimePoint now);
  Session* find(SessionId id);
  Session* by_channel(ChannelId channel);
  Session* by_path_peer(const DataPath& path, PathPeer peer);

  void on_hello(ChannelId channel, const wire::Hello& hello, TimePoint now);
  void on_hello_reply(ChannelId channel, const wire::HelloReply& reply, TimePoint now);
  void on_heartbeat(Session& session, const wire::PeerHeartbeat& beat, TimePoint now);
  void on_path_closed(const DataPath& path, PathPeer peer, TimePoint now);

  // Ends a session; nothing happens when it has ended.
  void lose(Session& session, const Status& why, TimePoint now);
  // Sends; a channel that does not take the message ends the session at the next poll().
  void send(Session& session, const wire::Message& message);

  // Heartbeats, deadlines, dead processes; removes what is over. `oldest` and `stuck` go into the
  // heartbeats. True when this thread itself was late, so that nobody may be blamed for silence.
  bool poll(TimePoint now, Duration oldest, bool stuck);

  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& [id, session] : sessions_) {
      visit(*session);
    }
  }
  std::vector<int> process_fds() const;
  size_t size() const { return sessions_.size(); }

 private:
  struct Rest {  // of an address that failed
    TimePoint until;
    Duration delay{};
    std::string why;  // the last reason, which is logged once
  };
  Session& add(ChannelId channel, bool outbound, TimePoint now);
  wire::Hello hello_of(const Session& session) const;
  Status establish(Session& session, const wire::Hello& peer);
  Status take_pools(Session& session, const Agreement& link, const wire::Hello& peer) const;
  bool try_next(Session& session, const Status& why, TimePoint now);
  void become_ready(Session& session, TimePoint now);
  void replace_older(const wire::Hello& hello, ChannelId channel, TimePoint now);
  void judge(Session& session, TimePoint now, const wire::PeerHeartbeat& beat);
  void reap();

  const CoreContext& context_;
  const std::vector<DataPath*> paths_;
  SessionObserver& observer_;
  const HostIdentity host_;
  const wire::Hello hello_;  // our own
  SessionId next_id_ = 1;
  std::unordered_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::unordered_map<std::string, Rest> resting_;
  std::vector<std::pair<SessionId, Status>> broken_;  // to lose at the next poll
  TimePoint last_poll_{};
};

}  // namespace baton::kv_transfer
