#include "kv_transfer/core.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace baton::kv_transfer {
namespace {

AgentOptions with_scaled_timeouts(AgentOptions options) {
  options.timeouts = scaled(options.timeouts);
  return options;
}

}  // namespace

Timeouts scaled(const Timeouts& timeouts) {
  Timeouts t = timeouts;
  for (Duration* d : {&t.handshake, &t.reserve, &t.no_progress, &t.transfer_base, &t.transfer_max,
                      &t.commit_ack, &t.abort_drain, &t.lease_extra, &t.heartbeat, &t.peer_dead,
                      &t.quarantine_alarm, &t.endpoint_close, &t.reconnect_min, &t.reconnect_max}) {
    *d = std::chrono::duration_cast<Duration>(*d * t.time_scale);
  }
  return t;
}

// Tells the tables what one data path reports.
class TransferCore::PathEvents final : public DataPathEvents {
 public:
  PathEvents(TransferCore& core, DataPath& path) : core_(core), path_(path) {}

  Result<Placement> announced(std::span<const std::byte> header, size_t bytes) override {
    return core_.receiver_.announced(header, bytes, core_.now());
  }
  void malformed() override { core_.metrics_.dropped(DropReason::kNotRendezvous); }
  void placed(uint64_t id, const Status& status) override {
    core_.receiver_.placed(id, status, core_.now());
  }
  void sent(uint64_t cookie, const Status& status) override {
    core_.sender_.sent(cookie, status, core_.now());
  }
  void peer_failed(PathPeer peer, const Status& status) override {
    if (Session* session = core_.sessions_.by_path_peer(path_, peer); session != nullptr) {
      core_.sessions_.lose(*session, status, core_.now());
    }
  }
  void peer_closed(PathPeer peer) override {
    core_.sessions_.on_path_closed(path_, peer, core_.now());
  }

 private:
  TransferCore& core_;
  DataPath& path_;
};

TransferCore::TransferCore(const AgentOptions& options, std::vector<DataPath*> paths,
                           ControlPort& control, const Clock& clock, Random& random,
                           TransferMetrics& metrics, std::function<void(Event)> emit)
    : options_(with_scaled_timeouts(options)),
      paths_(std::move(paths)),
      clock_(clock),
      metrics_(metrics),
      emit_(std::move(emit)),
      context_{options_, control, metrics_, emit_},
      sessions_(context_, paths_, *this),
      sender_(context_, sessions_),
      receiver_(context_, sessions_, static_cast<uint32_t>(random.next_nonzero() >> 33) + 1) {
  for (DataPath* path : paths_) {
    path_events_.push_back(std::make_unique<PathEvents>(*this, *path));
    if (options_.role == wire::Role::kPrefill) {
      metrics_.offer(path->transport());
    }
  }
}

TransferCore::~TransferCore() = default;

void TransferCore::on_message(ChannelId channel, Result<wire::Message> message) {
  if (!message.ok()) {
    metrics_.dropped(DropReason::kBadMessage);
    if (const Session* session = sessions_.by_channel(channel); session != nullptr) {
      log_warn("unreadable message",
               {{"peer", session->name}, {"reason", message.status().message()}});
    }
    return;
  }
  if (const auto* hello = std::get_if<wire::Hello>(&*message)) {
    sessions_.on_hello(channel, *hello, now());
    return;
  }
  if (const auto* reply = std::get_if<wire::HelloReply>(&*message)) {
    sessions_.on_hello_reply(channel, *reply, now());
    return;
  }
  Session* session = sessions_.by_channel(channel);
  if (session == nullptr || !session->is_ready()) {
    metrics_.dropped(DropReason::kNoSession);
    return;
  }
  session->last_heard = now();
  deliver(*session, std::move(*message));
}

// Each side of the protocol takes its own messages only.
void TransferCore::deliver(Session& session, wire::Message message) {
  const TimePoint at = now();
  std::visit(
      [&](auto& m) {
        using M = std::decay_t<decltype(m)>;
        constexpr bool kToSender =
            std::is_same_v<M, wire::Grant> || std::is_same_v<M, wire::Deny> ||
            std::is_same_v<M, wire::CommitAck> || std::is_same_v<M, wire::StatusReply>;
        constexpr bool kToReceiver =
            std::is_same_v<M, wire::Reserve> || std::is_same_v<M, wire::Commit> ||
            std::is_same_v<M, wire::Written> || std::is_same_v<M, wire::StatusQuery>;
        if constexpr (std::is_same_v<M, wire::PeerHeartbeat>) {
          sessions_.on_heartbeat(session, m, at);
          if (session.is_ready() && !session.outbound) {
            receiver_.on_heartbeat(session, at);
          }
          return;
        } else if constexpr (kToSender) {
          if (session.outbound) {
            sender_.on_message(session, m, at);
            return;
          }
        } else if constexpr (kToReceiver) {
          if (!session.outbound) {
            receiver_.on_message(session, std::move(m), at);
            return;
          }
        } else if constexpr (std::is_same_v<M, wire::Abort>) {
          session.outbound ? sender_.on_message(session, m, at)
                           : receiver_.on_message(session, m, at);
          return;
        } else if constexpr (std::is_same_v<M, wire::AbortAck>) {
          session.outbound ? sender_.on_message(session, m, at)
                           : receiver_.on_message(session, m, at);
          return;
        }
        metrics_.dropped(DropReason::kUnexpected);
      },
      message);
}

void TransferCore::on_channel_lost(ChannelId channel, const std::string& why) {
  if (Session* session = sessions_.by_channel(channel); session != nullptr) {
    sessions_.lose(
        *session,
        worker_lost(session->name + (why.empty() ? " closed its connection" : ": " + why)), now());
  }
}

int TransferCore::progress() {
  int done = 0;
  for (size_t i = 0; i < paths_.size(); ++i) {
    done += paths_[i]->progress(*path_events_[i]);
  }
  return done + sender_.pump(now());
}

void TransferCore::poll(bool stuck) {
  const TimePoint at = now();
  const bool late = sessions_.poll(at, oldest(), stuck);
  sender_.sweep(at, late);
  receiver_.sweep(at, late);
}

void TransferCore::shut_down(const Status& why) {
  sessions_.for_each([&](Session& session) { sessions_.lose(session, why, now()); });
}

bool TransferCore::idle() {
  bool idle = true;
  sessions_.for_each([&](const Session& session) {
    const bool writer = !session.outbound && session.puts();
    idle = idle && writer && session.state == SessionState::kDead;
  });
  return idle;
}

bool TransferCore::outstanding() const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const DataPath* path) { return path->outstanding(); });
}

std::vector<TransferAgent::Link> TransferCore::links() {
  std::vector<TransferAgent::Link> links;
  sessions_.for_each([&](const Session& session) {
    if (session.is_ready()) {
      links.push_back({session.name, session.link->transport, session.incarnation});
    }
  });
  return links;
}

Duration TransferCore::oldest() const {
  return std::max(sender_.oldest(now()), receiver_.oldest(now()));
}

void TransferCore::session_ready(Session& session, TimePoint now) {
  if (session.outbound) {
    sender_.session_ready(session, now);
  }
}

void TransferCore::session_lost(Session& session, const Status& why, TimePoint now) {
  if (session.outbound) {
    sender_.session_lost(session, why, now);
  } else {
    receiver_.session_lost(session, why, now);
  }
}

void TransferCore::session_closed(Session& session, TimePoint) {
  if (!session.outbound) {
    receiver_.session_closed(session);
  }
}

}  // namespace baton::kv_transfer
