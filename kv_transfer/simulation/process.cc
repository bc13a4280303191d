#include "kv_transfer/simulation/process.h"

#include <algorithm>
#include <utility>

namespace baton::kv_transfer::simulation {
namespace {

metrics::RegistryOptions registry_options(wire::Role role, const std::string& name) {
  return {role == wire::Role::kPrefill ? metrics::kByPrefill : metrics::kByDecode, "m", name,
          1'000};
}

AgentOptions agent_options(const TestPools& pools, wire::Role role, const std::string& name,
                           uint64_t incarnation) {
  AgentOptions options = test_options(pools, role, name, incarnation);
  options.digest = true;
  return options;
}

}  // namespace

uint64_t kv_seed(uint64_t request) { return request * 7 + 1; }

Process::Process(World& world, wire::Role role, std::string name, uint64_t incarnation,
                 const TestShape& shape)
    : world_(world),
      role_(role),
      name_(std::move(name)),
      incarnation_(Incarnation{incarnation}),
      pools_(std::make_unique<TestPools>(shape)),
      owners_(shape.blocks),
      registry_(registry_options(role, name_)),
      metrics_(registry_),
      port_(world.network, role == wire::Role::kDecode ? "net/" + name_ : ""),
      path_(std::make_unique<SimulatedPath>(
          world.fabric, world.puts,
          role == wire::Role::kDecode ? pools_->all() : std::span<const kv_cache::KvPool>())),
      core_(std::make_unique<TransferCore>(
          agent_options(*pools_, role, name_, incarnation), std::vector<DataPath*>{path_.get()},
          port_, world.clock, world.dice.random(), metrics_,
          [this](Event event) { events_.push_back(std::move(event)); })),
      next_poll_(world.clock.now()) {}

Process::~Process() {
  path_->die();
  core_.reset();
  world_.graveyard.push_back(std::move(pools_));
}

void Process::turn() {
  if (stopped()) {
    return;
  }
  port_.deliver(*core_);
  core_->progress();
  if (world_.clock.now() >= next_poll_) {
    next_poll_ = world_.clock.now() + TransferCore::kSweepInterval;
    core_->poll(false);
  }
  while (!events_.empty()) {
    Event event = std::move(events_.front());
    events_.pop_front();
    on_event(std::move(event));
  }
  work();
  core_->progress();
}

std::optional<BlockId> Process::block_of(const std::byte* memory) const {
  for (const kv_cache::KvPool* pool : pools_->pointers()) {
    const std::byte* begin = pool->layer_base(0);
    if (memory >= begin && memory < begin + pool->bytes()) {
      const auto block = static_cast<size_t>(memory - begin) / pool->block_bytes();
      return static_cast<BlockId>(block % static_cast<size_t>(pool->blocks()));
    }
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- prefill

PrefillProcess::PrefillProcess(World& world, const std::string& name, uint64_t incarnation,
                               const TestShape& shape, Ended ended)
    : Process(world, wire::Role::kPrefill, name, incarnation, shape), ended_(std::move(ended)) {}

bool PrefillProcess::start(uint64_t request, int attempt, int tokens,
                           const wire::DecodeTarget& target, TimePoint deadline) {
  const TransferId id = next_transfer_++;
  auto blocks = owners_.take(pools_->blocks_for(tokens), {BlockOwners::Kind::kSequence, id});
  if (!blocks) {
    return false;
  }
  Prefill prefill;
  prefill.request = request;
  prefill.attempt = attempt;
  prefill.tokens = tokens;
  prefill.layers_written = pools_->shape().layers;
  prefill.blocks = *blocks;
  pools_->zero_values(*blocks);
  OpenTransfer open;
  open.target = target;
  open.body = test_body(tokens, request);
  open.body.key.attempt = static_cast<uint16_t>(attempt);
  open.kv_tokens = tokens;
  open.blocks = *blocks;
  open.deadline = deadline;
  prefills_.emplace(id, std::move(prefill));
  core().open(id, std::move(open));
  return true;
}

bool PrefillProcess::has(uint64_t request, int attempt) const {
  return std::any_of(prefills_.begin(), prefills_.end(), [&](const auto& entry) {
    return entry.second.request == request && entry.second.attempt == attempt;
  });
}

void PrefillProcess::cancel_one() {
  if (!prefills_.empty()) {
    auto it = prefills_.begin();
    std::advance(it, world_.dice.below(prefills_.size()));
    world_.note(name_ + " cancels request " + std::to_string(it->second.request));
    core().abort(it->first, "cancelled");
  }
}

// Some layers of a chunk, or the next chunk, or the commit.
void PrefillProcess::advance(TransferId id, Prefill& prefill) {
  const int layers = pools_->shape().layers;
  if (prefill.layers_written < layers) {
    const int more = world_.dice.between(1, layers - prefill.layers_written);
    for (int i = 0; i < more; ++i, ++prefill.layers_written) {
      for (size_t rank = 0; rank < pools_->shape().ranks.size(); ++rank) {
        core().layer_written(id, static_cast<int>(rank), prefill.layers_written, prefill.computed);
      }
    }
    return;
  }
  if (prefill.computed < prefill.tokens) {
    const int chunk = world_.dice.between(1, prefill.tokens - prefill.computed);
    pools_->write(prefill.blocks, kv_seed(prefill.request), prefill.computed,
                  prefill.computed + chunk);
    prefill.computed += chunk;
    prefill.layers_written = 0;
    return;
  }
  if (!prefill.committed) {
    prefill.committed = true;
    core().commit(id, {{}}, {});
  }
}

void PrefillProcess::work() {
  std::vector<TransferId> ids;
  for (const auto& [id, prefill] : prefills_) {
    ids.push_back(id);
  }
  for (const TransferId id : ids) {
    if (world_.dice.chance(600)) {
      advance(id, prefills_.at(id));
    }
  }
}

void PrefillProcess::finish(TransferId id, const Status& status) {
  const auto it = prefills_.find(id);
  if (it == prefills_.end()) {
    violation("a transfer has ended twice");
    return;
  }
  const Prefill prefill = std::move(it->second);
  prefills_.erase(it);
  if (!owners_.pass(prefill.blocks, {BlockOwners::Kind::kSequence, id}, {})) {
    violation("a block of a transfer has another owner");
  }
  // Whoever still reads them reads nonsense.
  pools_->write(prefill.blocks, ~uint64_t{0}, 0,
                static_cast<int>(prefill.blocks.size()) * pools_->shape().block_tokens);
  ended_(prefill.request, status);
}

void PrefillProcess::on_event(Event event) {
  if (const auto* acked = std::get_if<TransferAcked>(&event)) {
    finish(acked->id, Status());
  } else if (const auto* failed = std::get_if<TransferFailed>(&event)) {
    if (failed->status.ok()) {
      violation("a transfer failed without a reason");
    }
    finish(failed->id, failed->status);
  }
}

// ---------------------------------------------------------------- decode

DecodeProcess::DecodeProcess(World& world, const std::string& name, uint64_t incarnation,
                             const TestShape& shape, Done done)
    : Process(world, wire::Role::kDecode, name, incarnation, shape), done_(std::move(done)) {}

void DecodeProcess::cancel_one() {
  if (!reservations_.empty()) {
    auto it = reservations_.begin();
    std::advance(it, world_.dice.below(reservations_.size()));
    world_.note(name_ + " cancels request " + std::to_string(it->second.request));
    core().abort_reservation(it->first, "cancelled");
    if (!it->second.granted) {
      reservations_.erase(it);  // of what was not granted nothing more is told
    }
  }
}

bool DecodeProcess::answer(uint64_t id, Reservation& reservation) {
  if (world_.dice.chance(50)) {
    core().deny(id, resource_exhausted("dice"), 5);
    reservations_.erase(id);
    return true;
  }
  auto blocks =
      owners_.take(pools_->blocks_for(reservation.tokens), {BlockOwners::Kind::kTicket, id});
  if (!blocks) {
    return false;
  }
  reservation.granted = true;
  reservation.since = reservation.last_use = world_.clock.now();
  reservation.blocks = *blocks;
  pools_->zero_values(*blocks);
  // A prefix that this worker has already.
  const int units = reservation.tokens / reservation.unit;
  const int have = world_.dice.chance(300) ? world_.dice.between(0, units) * reservation.unit : 0;
  if (have > 0) {
    pools_->write(*blocks, kv_seed(reservation.request), 0, have);
  }
  world_.note(name_ + " grants request " + std::to_string(reservation.request) + " attempt " +
              std::to_string(reservation.attempt));
  core().grant(id, std::move(*blocks), have);
  return true;
}

// No ticket outlives its lease and its quarantine: the longest transfer, twice, the extra, and the
// time that a posted receive may take.
void DecodeProcess::check_ages() {
  constexpr Duration kLongest = 2 * 30s + 2s + 5s;
  for (const auto& [id, reservation] : reservations_) {
    if (reservation.granted && world_.clock.now() - reservation.since > kLongest) {
      violation("the ticket of request " + std::to_string(reservation.request) + " attempt " +
                std::to_string(reservation.attempt) + " has outlived its lease");
    }
  }
}

void DecodeProcess::check_use(const InUse& in_use, Duration patience) {
  const TimePoint now = world_.clock.now();
  for (auto& [id, reservation] : reservations_) {
    if (!reservation.granted ||
        in_use(reservation.peer, reservation.request, reservation.attempt)) {
      reservation.last_use = now;
    } else if (now - reservation.last_use > patience) {
      violation("nobody uses the ticket of request " + std::to_string(reservation.request) +
                " attempt " + std::to_string(reservation.attempt));
    }
  }
}

void DecodeProcess::work() {
  while (!waiting_.empty()) {
    const auto it = reservations_.find(waiting_.front());
    if (it != reservations_.end() && (world_.dice.chance(200) || !answer(it->first, it->second))) {
      break;
    }
    waiting_.pop_front();
  }
  check_ages();
  std::erase_if(running_, [&](const Running& sequence) {
    if (world_.clock.now() < sequence.until) {
      return false;
    }
    if (pools_->mismatches(sequence.blocks, kv_seed(sequence.request), 0, sequence.tokens) != 0) {
      violation("KV of a running sequence was overwritten");
    }
    if (!owners_.pass(sequence.blocks, {BlockOwners::Kind::kSequence, sequence.request}, {})) {
      violation("a block of a sequence has another owner");
    }
    done_(sequence.request, sequence.attempt);
    return true;
  });
}

void DecodeProcess::on_committed(const TransferCommitted& event) {
  const auto it = reservations_.find(event.reservation);
  if (it == reservations_.end() || !it->second.granted || it->second.aborted) {
    violation("a commit of a ticket that is over");
    return;
  }
  const Reservation reservation = std::move(it->second);
  reservations_.erase(it);
  if (pools_->mismatches(reservation.blocks, kv_seed(reservation.request), 0, reservation.tokens) !=
      0) {
    violation("committed KV is not what was computed");
  }
  if (!owners_.pass(reservation.blocks, {BlockOwners::Kind::kTicket, event.reservation},
                    {BlockOwners::Kind::kSequence, reservation.request})) {
    violation("a block of a ticket has another owner");
  }
  running_.push_back({reservation.request, reservation.attempt, reservation.tokens,
                      reservation.blocks, world_.clock.now() + world_.dice.up_to(400ms)});
}

void DecodeProcess::on_event(Event event) {
  if (auto* arrived = std::get_if<ReserveArrived>(&event)) {
    Reservation reservation;
    reservation.peer = arrived->peer;
    reservation.request = arrived->body.key.request.value.lo;
    reservation.attempt = arrived->body.key.attempt;
    reservation.tokens = arrived->kv_tokens;
    reservation.unit = arrived->push_unit_tokens;
    reservations_.emplace(arrived->reservation, std::move(reservation));
    waiting_.push_back(arrived->reservation);
  } else if (const auto* withdrawn = std::get_if<ReserveWithdrawn>(&event)) {
    const auto it = reservations_.find(withdrawn->reservation);
    if (it != reservations_.end() && !it->second.blocks.empty()) {
      // The grant was on its way: its blocks are ours again.
      owners_.pass(it->second.blocks, {BlockOwners::Kind::kTicket, it->first}, {});
    }
    reservations_.erase(withdrawn->reservation);
  } else if (const auto* committed = std::get_if<TransferCommitted>(&event)) {
    on_committed(*committed);
  } else if (const auto* aborted = std::get_if<TicketAborted>(&event)) {
    const auto it = reservations_.find(aborted->reservation);
    if (it == reservations_.end() || it->second.aborted) {
      violation("a ticket was aborted twice");
    } else {
      it->second.aborted = true;
      world_.note(name_ + " aborts request " + std::to_string(it->second.request) + " attempt " +
                  std::to_string(it->second.attempt) + ": " + aborted->status.to_string());
    }
  } else if (const auto* released = std::get_if<TicketReleased>(&event)) {
    const auto it = reservations_.find(released->reservation);
    if (it == reservations_.end() || !it->second.aborted) {
      violation("a ticket was released that was not aborted");
      return;
    }
    if (!owners_.pass(it->second.blocks, {BlockOwners::Kind::kTicket, it->first}, {})) {
      violation("a block of a ticket has another owner");
    }
    reservations_.erase(it);
  }
}

}  // namespace baton::kv_transfer::simulation
