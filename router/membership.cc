#include "router/membership.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace baton::router {
namespace {

// Watches the worker's process if its pid means the same here: in another pid namespace it is that
// of a stranger.
ProcessWatch watch(const wire::WorkerInfo& info, const HostIdentity& own) {
  HostIdentity host;
  host.boot_id = info.boot_id;
  host.pid_namespace = info.pid_namespace;
  if (info.pid == 0 || !host.shares_pids(own)) {
    return {};
  }
  Result<ProcessWatch> opened = ProcessWatch::open(info.pid);
  return opened.ok() ? std::move(*opened) : ProcessWatch();
}

}  // namespace

void PrefixView::apply(const wire::Heartbeat& heartbeat) {
  if (heartbeat.cache_overflow || blocks_.size() > kLimit) {
    blocks_.clear();
  }
  for (const U128& hash : heartbeat.cache_removed) {
    blocks_.erase(hash);
  }
  blocks_.insert(heartbeat.cache_added.begin(), heartbeat.cache_added.end());
  expected_before_ = std::exchange(expected_, {});
}

void PrefixView::expect(const std::vector<U128>& chain) {
  if (expected_.size() < kLimit) {
    expected_.insert(chain.begin(), chain.end());
  }
}

int PrefixView::leading(const std::vector<U128>& chain) const {
  const auto missing = std::find_if(chain.begin(), chain.end(), [this](const U128& hash) {
    return !blocks_.contains(hash) && !expected_.contains(hash) && !expected_before_.contains(hash);
  });
  return static_cast<int>(missing - chain.begin());
}

std::string Membership::add(const std::string& peer, const wire::WorkerInfo& info, TimePoint now) {
  if (info.proto_version != wire::kProtoVersion) {
    return "the router speaks protocol version " + std::to_string(wire::kProtoVersion) +
           ", the worker " + std::to_string(info.proto_version);
  }
  if (info.role == wire::Role::kRouter || info.name.empty()) {
    return "a worker needs a name and the role prefill or decode";
  }
  constexpr uint32_t kLargestBlock = 1 << 16;
  if (info.incarnation.value == 0 || info.block_tokens == 0 || info.block_tokens > kLargestBlock ||
      info.max_context == 0) {
    return "a worker needs an incarnation, a block size and a context";
  }
  std::vector<Incarnation> replaced;
  for (const auto& [id, other] : workers_) {
    if (id == info.incarnation) {
      continue;
    }
    if (other.info.name == info.name && other.info.role == info.role) {
      replaced.push_back(id);  // its earlier life
      continue;
    }
    if (other.info.model_hash != info.model_hash) {
      return "its model (" + to_hex(info.model_hash) + ") is not that of " + other.info.name +
             " (" + to_hex(other.info.model_hash) + ")";
    }
    if (other.info.numerics != info.numerics) {
      return "its numerics (" + info.numerics + ") are not those of " + other.info.name + " (" +
             other.info.numerics + ")";
    }
  }
  for (const Incarnation id : replaced) {
    lose(id, "replaced");
  }
  WorkerState& worker = workers_[info.incarnation];
  const bool is_new = worker.info.incarnation.value == 0;
  worker.info = info;
  worker.peer = peer;
  worker.last_heard = now;
  if (is_new) {
    worker.load.blocks_free = info.blocks_total;
    worker.load.blocks_total = info.blocks_total;
    worker.load.window_blocks_free = info.window_blocks_total;
    worker.load.window_blocks_total = info.window_blocks_total;
    worker.process = watch(info, host_);
    log_info("worker joined", {{"worker", info.name},
                               {"role", info.role == wire::Role::kPrefill ? "prefill" : "decode"}});
  }
  return {};
}

bool Membership::heard(const std::string& peer, wire::Heartbeat heartbeat, TimePoint now) {
  WorkerState* worker = find(heartbeat.incarnation);
  if (worker == nullptr || worker->peer != peer) {
    return false;
  }
  worker->last_heard = now;
  worker->health = heartbeat.draining ? WorkerHealth::kDraining : WorkerHealth::kReady;
  worker->prefixes.apply(heartbeat);
  worker->load = std::move(heartbeat);
  worker->prefilled_since_heard = 0;
  return true;
}

void Membership::lose(Incarnation id, std::string_view reason) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) {
    return;
  }
  WorkerState worker = std::move(it->second);
  workers_.erase(it);
  worker.process = ProcessWatch();
  log_warn("worker gone", {{"worker", worker.info.name}, {"reason", reason}});
  on_lost_(worker, reason);
}

void Membership::leave(Incarnation worker, std::string_view reason) { lose(worker, reason); }

void Membership::sweep(TimePoint now, Duration late_by) {
  sweep_ended();
  std::vector<Incarnation> silent;
  for (auto& [id, worker] : workers_) {
    if (late_by > 200ms) {
      worker.last_heard = now;  // we slept ourselves: its heartbeats may lie in the queue
    } else if (now - worker.last_heard > timeout_) {
      silent.push_back(id);
    }
  }
  for (const Incarnation id : silent) {
    lose(id, "no heartbeat");
  }
}

void Membership::sweep_ended() {
  std::vector<Incarnation> ended;
  for (const auto& [id, worker] : workers_) {
    if (worker.process.ended()) {
      ended.push_back(id);
    }
  }
  for (const Incarnation id : ended) {
    lose(id, "process ended");
  }
}

WorkerState* Membership::find(Incarnation worker) {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &it->second;
}

std::vector<WorkerState*> Membership::ready(wire::Role role) {
  std::vector<WorkerState*> out;
  for (auto& [id, worker] : workers_) {
    if (worker.info.role == role && worker.health == WorkerHealth::kReady) {
      out.push_back(&worker);
    }
  }
  std::sort(out.begin(), out.end(),
            [](const WorkerState* a, const WorkerState* b) { return a->info.name < b->info.name; });
  return out;
}

std::vector<int> Membership::process_fds() const {
  std::vector<int> fds;
  for (const auto& [id, worker] : workers_) {
    if (worker.process.poll_fd() >= 0) {
      fds.push_back(worker.process.poll_fd());
    }
  }
  return fds;
}

int Membership::max_context() const {
  int context = 0;
  for (const auto& [id, worker] : workers_) {
    const auto own = static_cast<int>(worker.info.max_context);
    context = context == 0 ? own : std::min(context, own);
  }
  return context;
}

}  // namespace baton::router
