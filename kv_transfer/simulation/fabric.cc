#include "kv_transfer/simulation/fabric.h"

#include <algorithm>
#include <cstring>

namespace baton::kv_transfer::simulation {
namespace {

// How long a transport takes at most to notice that a process has ended.
constexpr Duration kDeathSeen = 150ms;

}  // namespace

void Fabric::own_source(Flight& flight) {
  if (!flight.own.empty()) {
    return;
  }
  flight.own.resize(total_bytes(flight.source));
  const std::vector<IoSlice> whole = {{flight.own.data(), flight.own.size()}};
  copy_slices(flight.source, whole, flight.own.size());
  flight.source = whole;
}

void Fabric::end(Flight& flight, Status status) {
  flight.stage = Stage::kResult;
  flight.status = std::move(status);
  flight.due = clock_.now() + dice_.up_to(faults_.data_delay / 4);
}

SimulatedPath::SimulatedPath(Fabric& fabric, bool puts, std::span<const kv_cache::KvPool> pools)
    : fabric_(fabric),
      address_("life-" + std::to_string(fabric.next_address_++)),
      puts_(puts),
      receiver_(!pools.empty()) {
  fabric_.alive_.insert(address_);
  fabric_.pools_[address_] = pools;
}

void SimulatedPath::die() {
  if (dead_) {
    return;
  }
  dead_ = true;
  fabric_.alive_.erase(address_);
  for (Fabric::Flight& flight : fabric_.flights_) {
    const bool result = flight.stage == Fabric::Stage::kResult;
    if (flight.to == address_ && !result) {
      fabric_.end(flight, worker_lost("the peer's data path is closed"));
    } else if (flight.from == address_ && !result) {
      Fabric::own_source(flight);
    }
  }
  std::erase_if(fabric_.mapped_, [&](const auto& pair) { return pair.first == address_; });
  std::erase_if(fabric_.flights_, [&](const Fabric::Flight& flight) {
    return flight.from == address_ &&
           (flight.stage == Fabric::Stage::kResult || flight.stage == Fabric::Stage::kWriting ||
            (flight.stage == Fabric::Stage::kTravelling && fabric_.dice_.chance(500)));
  });
}

Result<PathPeer> SimulatedPath::connect(const std::string& address) {
  if (!fabric_.alive_.contains(address)) {
    return worker_lost("nobody has the address that the peer named");
  }
  // Whoever connects anew has let go of its old mapping and has no new one yet.
  for (auto& [id, peer] : peers_) {
    peer.unmapped = peer.unmapped || (peer.closing && !may_write(peer));
  }
  if (puts_ && !receiver_) {
    fabric_.mapped_.emplace(address_, address);
  }
  const PathPeer peer = next_peer_++;
  peers_[peer].address = address;
  return peer;
}

std::span<const kv_cache::KvPool> SimulatedPath::pools_of(PathPeer peer) const {
  const auto it = peers_.find(peer);
  return !puts_ || it == peers_.end() || it->second.closing ? std::span<const kv_cache::KvPool>()
                                                            : fabric_.pools_.at(it->second.address);
}

bool SimulatedPath::may_write(const Peer& peer) const {
  return receiver_ && fabric_.mapped_.contains({peer.address, address_});
}

void SimulatedPath::send(PathPeer peer, std::span<const std::byte> header,
                         std::span<const IoSlice> slices, std::span<const IoSlice> targets,
                         uint64_t cookie) {
  Dice& dice = fabric_.dice_;
  const Faults& faults = fabric_.faults_;
  Fabric::Flight flight;
  flight.from = address_;
  flight.from_peer = peer;
  flight.cookie = cookie;
  flight.due = fabric_.clock_.now() + dice.up_to(faults.data_delay);
  const auto it = peers_.find(peer);
  if (it == peers_.end() || !fabric_.alive_.contains(it->second.address)) {
    fabric_.end(flight, worker_lost("the peer is closed"));
  } else if (dice.chance(faults.data_failed)) {
    flight.to = it->second.address;
    fabric_.end(flight, internal_error("the transport failed"));
  } else if (dice.chance(faults.data_swallowed)) {
    flight.to = it->second.address;
    fabric_.end(flight, Status());
  } else {
    flight.to = it->second.address;
    flight.header.assign(header.begin(), header.end());
    flight.source.assign(slices.begin(), slices.end());
    if (puts_) {
      flight.stage = Fabric::Stage::kWriting;
      flight.target.assign(targets.begin(), targets.end());
    }
    if (dice.chance(faults.data_flipped)) {
      Fabric::own_source(flight);
      flight.own[dice.below(flight.own.size())] ^= std::byte{1};
    }
  }
  fabric_.flights_.push_back(std::move(flight));
}

void SimulatedPath::close(PathPeer peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end() || it->second.closing) {
    return;
  }
  it->second.closing = true;
  fabric_.mapped_.erase({address_, it->second.address});
  for (Fabric::Flight& flight : fabric_.flights_) {
    const bool ours = flight.from == address_ && flight.from_peer == peer;
    if (ours &&
        (flight.stage == Fabric::Stage::kTravelling || flight.stage == Fabric::Stage::kWriting)) {
      fabric_.end(flight, worker_lost("closed"));
    }
    // The peer may write on for as long as its process runs.
    if (flight.to == address_ && flight.from == it->second.address &&
        flight.stage == Fabric::Stage::kPlacing) {
      flight.due = fabric_.clock_.now() + fabric_.dice_.up_to(fabric_.faults_.data_delay);
    }
  }
}

void SimulatedPath::place(Fabric::Flight& flight, DataPathEvents& events) {
  fabric_.watch_.reading(flight.from, flight.source);
  fabric_.watch_.placing(address_, flight.target);
  const bool torn = fabric_.dice_.chance(fabric_.faults_.data_torn);
  const size_t bytes = total_bytes(flight.target);
  copy_slices(flight.source, flight.target, torn ? bytes / 2 : bytes);
  const Status status = torn ? internal_error("the transport failed") : Status();
  fabric_.end(flight, status);
  events.placed(flight.placement, status);
}

// By the sender: the receiver has no say and learns nothing.
void SimulatedPath::write(Fabric::Flight& flight) {
  fabric_.watch_.reading(flight.from, flight.source);
  fabric_.watch_.placing(flight.to, flight.target);
  const bool torn = fabric_.dice_.chance(fabric_.faults_.data_torn);
  const size_t bytes = total_bytes(flight.target);
  copy_slices(flight.source, flight.target, torn ? bytes / 2 : bytes);
  fabric_.end(flight, torn ? internal_error("the transport failed") : Status());
}

// One flight, if it is ours and its time has come. The events may add flights.
int SimulatedPath::take(size_t index, DataPathEvents& events) {
  if (fabric_.flights_[index].due > fabric_.clock_.now()) {
    return 0;
  }
  Fabric::Flight flight = std::move(fabric_.flights_[index]);
  fabric_.flights_.erase(fabric_.flights_.begin() + static_cast<ptrdiff_t>(index));
  if (flight.stage == Fabric::Stage::kResult) {
    events.sent(flight.cookie, flight.status);
    return 1;
  }
  if (flight.stage == Fabric::Stage::kWriting) {
    write(flight);
  } else if (flight.stage == Fabric::Stage::kPlacing) {
    place(flight, events);
  } else {
    Result<DataPathEvents::Placement> placement =
        events.announced(flight.header, total_bytes(flight.source));
    if (!placement.ok()) {
      fabric_.end(flight, placement.status().with_context("rejected by the receiver"));
    } else {
      flight.stage = Fabric::Stage::kPlacing;
      flight.placement = placement->id;
      flight.target = std::move(placement->slices);
      flight.due = fabric_.clock_.now() + fabric_.dice_.up_to(fabric_.faults_.data_delay);
    }
  }
  if (fabric_.alive_.contains(flight.from) || flight.stage == Fabric::Stage::kPlacing) {
    fabric_.flights_.push_back(std::move(flight));
  }
  return 1;
}

int SimulatedPath::watch_peers(DataPathEvents& events) {
  const TimePoint now = fabric_.clock_.now();
  std::vector<PathPeer> failed, closed;
  for (auto& [id, peer] : peers_) {
    const bool busy = std::any_of(fabric_.flights_.begin(), fabric_.flights_.end(),
                                  [&, peer_id = id](const auto& flight) {
                                    return flight.from == address_ && flight.from_peer == peer_id;
                                  });
    if (peer.closing && !busy && (peer.unmapped || !may_write(peer))) {
      closed.push_back(id);
    } else if (!peer.closing && !peer.failed && !fabric_.alive_.contains(peer.address)) {
      if (peer.death_seen == TimePoint::max()) {
        peer.death_seen = now + fabric_.dice_.up_to(kDeathSeen);
      }
      if (now >= peer.death_seen) {
        peer.failed = true;
        failed.push_back(id);
      }
    }
  }
  for (const PathPeer peer : closed) {
    peers_.erase(peer);
    events.peer_closed(peer);
  }
  for (const PathPeer peer : failed) {
    events.peer_failed(peer, worker_lost("the peer's data path is closed"));
  }
  return static_cast<int>(failed.size() + closed.size());
}

int SimulatedPath::progress(DataPathEvents& events) {
  int done = 0;
  for (size_t i = 0; i < fabric_.flights_.size();) {
    const Fabric::Flight& flight = fabric_.flights_[i];
    const bool by_sender =
        flight.stage == Fabric::Stage::kResult || flight.stage == Fabric::Stage::kWriting;
    const bool ours = by_sender ? flight.from == address_ : flight.to == address_;
    const int taken = ours ? take(i, events) : 0;
    done += taken;
    i += taken == 0 ? 1 : 0;
  }
  return done + watch_peers(events);
}

}  // namespace baton::kv_transfer::simulation
