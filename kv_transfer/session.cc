#include "kv_transfer/session.h"

#include <algorithm>

#include "common/base/log.h"

namespace baton::kv_transfer {
namespace {

constexpr size_t kMaxSessions = 1'024;

}  // namespace

SessionTable::SessionTable(const CoreContext& context, std::vector<DataPath*> paths,
                           SessionObserver& observer)
    : context_(context),
      paths_(std::move(paths)),
      observer_(observer),
      host_(this_process()),
      hello_(make_hello(context.options, host_, paths_)) {}

Session& SessionTable::add(ChannelId channel, bool outbound, TimePoint now) {
  auto session = std::make_unique<Session>();
  session->id = next_id_++;
  session->channel = channel;
  session->outbound = outbound;
  session->last_heard = now;
  session->handshake_deadline = now + context_.options.timeouts.handshake;
  Session& added = *session;
  sessions_.emplace(added.id, std::move(session));
  return added;
}

Result<Session*> SessionTable::open(const wire::DecodeTarget& target, TimePoint now) {
  for (auto& [id, session] : sessions_) {
    if (session->outbound && session->state != SessionState::kDead &&
        session->incarnation == target.incarnation) {
      return session.get();
    }
  }
  const auto rest = resting_.find(target.address);
  if (rest != resting_.end() && now < rest->second.until) {
    return unavailable(target.name + " failed a moment ago; the next try is in " +
                       std::to_string(static_cast<int>(to_ms(rest->second.until - now)) + 1) +
                       " ms");
  }
  BATON_ASSIGN_OR_RETURN(const ChannelId channel, context_.control.connect(target.address));
  Session& session = add(channel, true, now);
  session.name = target.name;
  session.incarnation = target.incarnation;
  session.address = target.address;
  send(session, hello_);
  return &session;
}

Session* SessionTable::find(SessionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

Session* SessionTable::by_channel(ChannelId channel) {
  for (auto& [id, session] : sessions_) {
    if (session->channel == channel && session->state != SessionState::kDead) {
      return session.get();
    }
  }
  return nullptr;
}

Session* SessionTable::by_path_peer(const DataPath& path, PathPeer peer) {
  for (auto& [id, session] : sessions_) {
    if (session->path == &path && session->path_peer == peer && session->path_open) {
      return session.get();
    }
  }
  return nullptr;
}

void SessionTable::send(Session& session, const wire::Message& message) {
  if (session.state == SessionState::kDead) {
    return;
  }
  if (Status status = context_.control.send(session.channel, message); !status.ok()) {
    broken_.emplace_back(session.id, std::move(status));
  }
}

// Without the transports that were tried in vain.
wire::Hello SessionTable::hello_of(const Session& session) const {
  wire::Hello hello = hello_;
  for (const PassedOver& passed : session.passed_over) {
    std::erase(hello.transports, passed.transport);
  }
  return hello;
}

// The pools that we are to write must be those which the plan is about.
Status SessionTable::take_pools(Session& session, const Agreement& link,
                                const wire::Hello& peer) const {
  const std::span<const kv_cache::KvPool> pools = session.path->pools_of(session.path_peer);
  bool same = static_cast<int>(pools.size()) == link.plan.target_ranks();
  for (size_t rank = 0; same && rank < pools.size(); ++rank) {
    same = pools[rank].heads() == link.plan.target_heads(static_cast<int>(rank)) &&
           pools[rank].layout().block_tokens == static_cast<int>(peer.block_tokens);
  }
  if (!same) {
    return incompatible(peer.name + " names pools of another shape than its HELLO");
  }
  for (const kv_cache::KvPool& pool : pools) {
    session.put_pools.push_back(&pool);
  }
  return Status();
}

// Agrees, opens the data path and checks its lane. On an error path_open says whether there is one.
Status SessionTable::establish(Session& session, const wire::Hello& peer) {
  Result<Agreement> link = session.outbound ? agree(hello_of(session), peer) : agree(peer, hello_);
  BATON_RETURN_IF_ERROR(link.status());
  session.transport = link->transport;
  const auto path = std::find_if(paths_.begin(), paths_.end(), [&](const DataPath* candidate) {
    return candidate->transport() == link->transport;
  });
  const std::optional<std::string> address = path_address(peer, link->transport);
  if (path == paths_.end() || !address) {
    return incompatible(peer.name + " gave no address for " + link->transport);
  }
  // In another pid namespace the pid would be that of a stranger.
  if (host_of(peer).shares_pids(host_) && peer.pid != host_.pid) {
    Result<ProcessWatch> watch = ProcessWatch::open(peer.pid);
    if (watch.ok()) {
      session.process = std::move(*watch);
    } else if (watch.status().code() == StatusCode::kNotFound) {
      return worker_lost(watch.status().message());
    }
  }
  BATON_ASSIGN_OR_RETURN(const PathPeer path_peer, (*path)->connect(*address));
  session.path = *path;
  session.path_peer = path_peer;
  session.path_open = true;
  BATON_RETURN_IF_ERROR((*path)->check_lane(path_peer));
  if (session.outbound && session.puts()) {
    BATON_RETURN_IF_ERROR(take_pools(session, *link, peer));
  }
  session.link = std::move(*link);
  return Status();
}

void SessionTable::become_ready(Session& session, TimePoint now) {
  session.state = SessionState::kReady;
  session.last_heard = now;
  session.next_heartbeat = now;
  resting_.erase(session.address);
  const std::string& transport = session.link->transport;
  std::vector<PassedOver> passed_over = session.passed_over;
  passed_over.insert(passed_over.end(), session.link->passed_over.begin(),
                     session.link->passed_over.end());
  log_info("link up", {{"peer", session.name},
                       {"transport", transport},
                       {"direction", session.outbound ? "push" : "receive"}});
  for (const PassedOver& passed : session.outbound ? passed_over : std::vector<PassedOver>()) {
    log_info("transport passed over",
             {{"peer", session.name}, {"transport", passed.transport}, {"reason", passed.why}});
    context_.metrics.passed_over(passed.transport);
  }
  context_.metrics.link_up(session.name, transport);
  context_.emit(PeerUp{session.name, session.incarnation, transport});
  observer_.session_ready(session, now);
}

// A peer has one session: another incarnation under its name, or the same one on a new channel,
// means that the old session is over.
void SessionTable::replace_older(const wire::Hello& hello, ChannelId channel, TimePoint now) {
  for (auto& [id, session] : sessions_) {
    const bool same_peer = session->name == hello.name || session->incarnation == hello.incarnation;
    if (!session->outbound && same_peer && session->channel != channel) {
      lose(*session, worker_lost(hello.name + " connected anew"), now);
    }
  }
}

void SessionTable::on_hello(ChannelId channel, const wire::Hello& hello, TimePoint now) {
  wire::HelloReply reply;
  reply.hello = hello_;
  const Session* known = by_channel(channel);
  if (known != nullptr && known->incarnation == hello.incarnation && known->is_ready()) {
    context_.metrics.dropped(DropReason::kUnexpected);
    return;
  }
  if (hello.role != wire::Role::kPrefill || sessions_.size() >= kMaxSessions) {
    reply.reason = hello.role != wire::Role::kPrefill ? "only prefill workers push to this agent"
                                                      : "too many sessions";
    (void)context_.control.send(channel, reply);
    context_.control.close(channel);
    return;
  }
  replace_older(hello, channel, now);
  Session& session = add(channel, false, now);
  session.name = hello.name;
  session.incarnation = hello.incarnation;
  const Status status = establish(session, hello);
  if (!status.ok()) {
    reply.reason = status.message();
    log_warn("refused a peer", {{"peer", hello.name}, {"reason", status.message()}});
    // Before lose(), which forgets the channel.
    send(session, reply);
    lose(session, status, now);
    return;
  }
  reply.accepted = true;
  reply.layout = hello_.layouts.front();
  reply.transport = session.link->transport;
  send(session, reply);
  become_ready(session, now);
}

void SessionTable::on_hello_reply(ChannelId channel, const wire::HelloReply& reply, TimePoint now) {
  Session* session = by_channel(channel);
  if (session == nullptr || !session->outbound || session->state != SessionState::kConnecting) {
    context_.metrics.dropped(DropReason::kUnexpected);
    return;
  }
  if (!reply.accepted) {
    const std::string tried =
        session->passed_over.empty() ? "" : "; " + describe(session->passed_over);
    lose(*session, incompatible(session->name + " refused the link: " + reply.reason + tried), now);
    return;
  }
  if (reply.hello.incarnation != session->incarnation) {
    lose(*session, worker_lost(session->name + " has been restarted"), now);
    return;
  }
  Status status = establish(*session, reply.hello);
  if (!status.ok() && !session->path_open && try_next(*session, status, now)) {
    return;
  }
  if (status.ok() && reply.transport != session->link->transport) {
    status = incompatible(session->name + " chose " + reply.transport + ", we " +
                          session->link->transport);
  }
  if (!status.ok()) {
    lose(*session, status, now);
    return;
  }
  become_ready(*session, now);
}

// The transport agreed upon cannot be had: says HELLO again, by a channel of its own, without it.
// False when none is left.
bool SessionTable::try_next(Session& session, const Status& why, TimePoint now) {
  if (session.transport.empty()) {
    return false;
  }
  session.passed_over.push_back({session.transport, why.message()});
  session.transport.clear();
  const wire::Hello hello = hello_of(session);
  if (hello.transports.empty()) {
    return false;
  }
  const Result<ChannelId> channel = context_.control.connect(session.address);
  if (!channel.ok()) {
    return false;
  }
  context_.control.close(session.channel);
  session.channel = *channel;
  session.process = ProcessWatch();
  session.handshake_deadline = now + context_.options.timeouts.handshake;
  send(session, hello);
  return true;
}

void SessionTable::on_heartbeat(Session& session, const wire::PeerHeartbeat& beat, TimePoint now) {
  if (beat.incarnation != session.incarnation) {
    context_.metrics.dropped(DropReason::kForeignSession);
    return;
  }
  if (beat.stuck) {
    lose(session, worker_lost(session.name + " says that it makes no progress"), now);
  }
}

void SessionTable::lose(Session& session, const Status& why, TimePoint now) {
  if (session.state == SessionState::kDead) {
    return;
  }
  const bool was_ready = session.is_ready();
  session.state = SessionState::kDead;
  session.ready.clear();
  session.process = ProcessWatch();
  if (session.outbound) {
    const Timeouts& timeouts = context_.options.timeouts;
    Rest& rest = resting_[session.address];
    rest.delay = std::clamp(rest.delay * 2, timeouts.reconnect_min, timeouts.reconnect_max);
    rest.until = now + rest.delay;
    if (!was_ready && rest.why != why.message()) {
      log_warn("no link", {{"peer", session.name}, {"reason", why.message()}});
      rest.why = why.message();
    }
  }
  context_.control.close(session.channel);
  if (was_ready) {
    // Whether that is a trouble or the end of a drain, the owner of the agent knows.
    log_info("link closed", {{"peer", session.name}, {"reason", why.to_string()}});
    context_.metrics.link_down(session.name, session.link->transport);
  }
  observer_.session_lost(session, why, now);
  if (was_ready) {
    context_.emit(PeerLost{session.name, session.incarnation, why});
  }
  if (session.path_open) {
    session.path->close(session.path_peer);
  } else {
    observer_.session_closed(session, now);
  }
}

void SessionTable::on_path_closed(const DataPath& path, PathPeer peer, TimePoint now) {
  if (Session* session = by_path_peer(path, peer); session != nullptr) {
    session->path_open = false;
    observer_.session_closed(*session, now);
  }
}

void SessionTable::judge(Session& session, TimePoint now, const wire::PeerHeartbeat& beat) {
  if (session.state == SessionState::kConnecting) {
    if (now >= session.handshake_deadline) {
      lose(session, worker_lost(session.name + " did not answer HELLO in time"), now);
    }
    return;
  }
  if (session.process.ended()) {
    lose(session, worker_lost(session.name + ": its process has ended"), now);
    return;
  }
  if (now - session.last_heard > context_.options.timeouts.peer_dead) {
    lose(session, worker_lost(session.name + " has been silent for too long"), now);
    return;
  }
  if (now >= session.next_heartbeat) {
    session.next_heartbeat = now + context_.options.timeouts.heartbeat;
    send(session, beat);
  }
}

bool SessionTable::poll(TimePoint now, Duration oldest, bool stuck) {
  const bool late =
      last_poll_ != TimePoint{} && now - last_poll_ > context_.options.timeouts.heartbeat;
  last_poll_ = now;
  wire::PeerHeartbeat beat;
  beat.incarnation = context_.options.incarnation;
  beat.oldest_active_ms = static_cast<uint32_t>(to_ms(oldest));
  beat.stuck = stuck;
  std::vector<std::pair<SessionId, Status>> broken;
  broken.swap(broken_);
  for (const auto& [id, status] : broken) {
    if (Session* session = find(id); session != nullptr) {
      lose(*session, worker_lost(session->name + ": " + status.message()), now);
    }
  }
  for (auto& [id, session] : sessions_) {
    if (session->state == SessionState::kDead) {
      continue;
    }
    if (late) {
      session->last_heard = now;
      session->handshake_deadline =
          std::max(session->handshake_deadline, now + context_.options.timeouts.heartbeat);
    }
    judge(*session, now, beat);
  }
  reap();
  return late;
}

void SessionTable::reap() {
  std::erase_if(sessions_, [](const auto& entry) {
    const Session& session = *entry.second;
    return session.state == SessionState::kDead && !session.path_open && session.users == 0;
  });
}

std::vector<int> SessionTable::process_fds() const {
  std::vector<int> fds;
  for (const auto& [id, session] : sessions_) {
    if (session->state == SessionState::kReady && session->process.poll_fd() >= 0) {
      fds.push_back(session->process.poll_fd());
    }
  }
  return fds;
}

}  // namespace baton::kv_transfer
