#include "kv_transfer/simulation/cluster.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kv_transfer/simulation/process.h"

namespace baton::kv_transfer::simulation {
namespace {

constexpr int kTurns = 250;
constexpr int kMaxAttempts = 4;
// How long a ticket may be there for a transfer that is not: an ABORT, its drain and the loss of
// the session that follows, twice.
constexpr Duration kPatience = 6s;

// Each schedule has its own kinds of trouble, so that rare ones are not always hidden by others.
Faults draw_faults(Dice& dice) {
  const auto some = [&](int per_mille) {
    return dice.chance(350) ? dice.between(1, per_mille) : 0;
  };
  Faults faults;
  faults.message_lost = some(60);
  faults.message_doubled = some(100);
  faults.message_overtakes = some(200);
  faults.message_unreadable = some(30);
  faults.message_delay = dice.chance(500) ? dice.up_to(80ms) : Duration{};
  faults.hang_up_unseen = some(1'000);
  faults.data_flipped = some(20);
  faults.data_failed = some(20);
  faults.data_swallowed = some(20);
  faults.data_torn = some(20);
  faults.data_delay = dice.chance(700) ? dice.up_to(120ms) : Duration{};
  faults.killed = some(12);
  faults.stopped = some(12);
  faults.cancelled = some(40);
  return faults;
}

TestShape draw_shape(Dice& dice, bool decode) {
  TestShape shape;
  shape.layers = 2;
  shape.dim = 16;
  shape.blocks = decode ? dice.between(5, 12) : 16;
  shape.block_tokens = dice.chance(750) ? 32 : 64;
  shape.ranks = head_ranges(9, 3, 4, 1 << (dice.chance(700) ? 0 : dice.between(1, 2)));
  return shape;
}

struct Request {
  int tokens = 0;
  int attempt = 0;  // 0: not placed yet
  enum class Where { kWaiting, kPrefill, kDecode, kDone, kFailed } where = Where::kWaiting;
  std::string prefill, decode;
  Incarnation decode_incarnation;
  TimePoint not_before{};
};

class Cluster final : private Fabric::Watch {
 public:
  Cluster(uint64_t seed, std::function<void(const std::string&)> trace)
      : dice_(seed),
        trace_(std::move(trace)),
        faults_(draw_faults(dice_)),
        network_(clock_, dice_, faults_),
        fabric_(clock_, dice_, faults_, *this),
        world_{clock_,    dice_,      faults_,
               network_,  fabric_,    puts_,
               findings_, graveyard_, [this](const std::string& text) { note(text); }} {
    const int prefills = dice_.between(1, 2);
    const int decodes = dice_.between(1, 2);
    for (int i = 0; i < prefills + decodes; ++i) {
      const bool decode = i >= prefills;
      Worker worker;
      worker.decode = decode;
      worker.name = (decode ? "d" : "p") + std::to_string(decode ? i - prefills : i);
      worker.shape = draw_shape(dice_, decode);
      workers_.push_back(std::move(worker));
    }
    for (Worker& worker : workers_) {
      begin(worker);
    }
  }

  ScheduleResult run() {
    for (int turn = 0; turn < kTurns && findings_.first().empty(); ++turn) {
      clock_.advance(Duration(1ms) + dice_.up_to(20ms));
      trouble();
      if (dice_.chance(150)) {
        Request request;
        request.tokens = dice_.between(1, 150);
        requests_.push_back(std::move(request));
      }
      all_take_a_turn();
    }
    calm_down();
    result_.finding = findings_.first();
    return result_;
  }

 private:
  struct Worker {
    bool decode = false;
    std::string name;
    TestShape shape;
    std::unique_ptr<PrefillProcess> p;
    std::unique_ptr<DecodeProcess> d;
    TimePoint begins{};

    Process* process() const {
      return decode ? static_cast<Process*>(d.get()) : static_cast<Process*>(p.get());
    }
  };

  void note(const std::string& text) {
    if (trace_) {
      trace_(std::to_string(static_cast<int>(to_ms(clock_.now().time_since_epoch()))) +
             " ms: " + text);
    }
  }

  void begin(Worker& worker) {
    const uint64_t incarnation = dice_.random().next_nonzero();
    note(worker.name + " begins");
    if (worker.decode) {
      worker.d = std::make_unique<DecodeProcess>(
          world_, worker.name, incarnation, worker.shape,
          [this](uint64_t request, int attempt) { decoded(request, attempt); });
    } else {
      worker.p = std::make_unique<PrefillProcess>(
          world_, worker.name, incarnation, worker.shape,
          [this](uint64_t request, const Status& status) { prefilled(request, status); });
    }
  }

  void end(Worker& worker) {
    note(worker.name + " dies");
    ++result_.deaths;
    worker.p.reset();
    worker.d.reset();
    worker.begins = clock_.now() + dice_.up_to(500ms);
    // The router learns of it and moves what was there.
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request& request = requests_[i];
      const bool there =
          (request.where == Request::Where::kPrefill && request.prefill == worker.name) ||
          (request.where == Request::Where::kDecode && request.decode == worker.name);
      if (there) {
        again(i);
      }
    }
  }

  void trouble() {
    for (Worker& worker : workers_) {
      Process* process = worker.process();
      if (process == nullptr) {
        if (clock_.now() >= worker.begins) {
          begin(worker);
        }
      } else if (dice_.chance(faults_.killed)) {
        end(worker);
      } else if (dice_.chance(faults_.stopped)) {
        note(worker.name + " stops");
        ++result_.stops;
        process->stop(dice_.up_to(3s));
      } else if (dice_.chance(faults_.cancelled)) {
        worker.decode ? worker.d->cancel_one() : worker.p->cancel_one();
      }
    }
  }

  void all_take_a_turn() {
    place_requests();
    const size_t first = dice_.below(workers_.size());
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[(first + i) % workers_.size()];
      if (worker.process() != nullptr) {
        worker.process()->turn();
      }
    }
    check_tickets();
  }

  // A ticket lives as long as its transfer: each side learns of the other's end, lease or not. Who
  // is stopped can learn nothing.
  void check_tickets() {
    for (const Worker& worker : workers_) {
      if (worker.d == nullptr) {
        continue;
      }
      const bool sleeping = worker.d->stopped();
      worker.d->check_use(
          [&](const std::string& peer, uint64_t request, int attempt) {
            const auto sender = std::find_if(workers_.begin(), workers_.end(),
                                             [&](const Worker& w) { return w.name == peer; });
            const PrefillProcess* p = sender->p.get();
            return sleeping || (p != nullptr && (p->stopped() || p->has(request, attempt)));
          },
          kPatience);
    }
  }

  // ---------------------------------------------------------------- the router's part

  void place_requests() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request& request = requests_[i];
      if (request.where != Request::Where::kWaiting || clock_.now() < request.not_before) {
        continue;
      }
      Worker* prefill = pick(false);
      Worker* decode = pick(true);
      if (prefill == nullptr || decode == nullptr) {
        continue;
      }
      const wire::DecodeTarget target{decode->name, decode->d->incarnation(), decode->d->address()};
      const TimePoint deadline =
          dice_.chance(300) ? clock_.now() + 200ms + dice_.up_to(5s) : TimePoint::max();
      if (!prefill->p->start(i, request.attempt + 1, request.tokens, target, deadline)) {
        continue;
      }
      ++request.attempt;
      request.where = Request::Where::kPrefill;
      request.prefill = prefill->name;
      request.decode = decode->name;
      request.decode_incarnation = decode->d->incarnation();
      note("request " + std::to_string(i) + " attempt " + std::to_string(request.attempt) + ": " +
           std::to_string(request.tokens) + " tokens, " + prefill->name + " to " + decode->name);
    }
  }

  Worker* pick(bool decode) {
    std::vector<Worker*> found;
    for (Worker& worker : workers_) {
      if (worker.decode == decode && worker.process() != nullptr) {
        found.push_back(&worker);
      }
    }
    return found.empty() ? nullptr : found[dice_.below(found.size())];
  }

  void again(size_t index) {
    Request& request = requests_[index];
    request.where =
        request.attempt < kMaxAttempts ? Request::Where::kWaiting : Request::Where::kFailed;
    request.not_before = clock_.now() + dice_.up_to(200ms);
  }

  void prefilled(uint64_t index, const Status& status) {
    note("request " + std::to_string(index) + ": " +
         (status.ok() ? std::string("handed over") : status.to_string()));
    Request& request = requests_[index];
    if (request.where != Request::Where::kPrefill) {
      return;  // decoded already: the acknowledgement was slow
    }
    if (!status.ok()) {
      if (status.code() == StatusCode::kCancelled) {
        request.where = Request::Where::kFailed;
      } else {
        again(index);
      }
      return;
    }
    request.where = Request::Where::kDecode;
    const bool gone = std::none_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
      return worker.d != nullptr && worker.d->incarnation() == request.decode_incarnation;
    });
    if (gone) {
      again(index);
    }
  }

  // Of any attempt: each is the same output.
  void decoded(uint64_t index, int attempt) {
    note("request " + std::to_string(index) + " attempt " + std::to_string(attempt) + " decoded");
    requests_[index].where = Request::Where::kDone;
  }

  // ---------------------------------------------------------------- what must hold

  const Process* find(const std::string& address) const {
    for (const Worker& worker : workers_) {
      if (worker.process() != nullptr && worker.process()->path_address() == address) {
        return worker.process();
      }
    }
    return nullptr;
  }
  void reading(const std::string& address, std::span<const IoSlice> source) override {
    check(address, source, BlockOwners::Kind::kSequence, "read from a block of no transfer");
  }
  void placing(const std::string& address, std::span<const IoSlice> target) override {
    check(address, target, BlockOwners::Kind::kTicket, "written into a block of no ticket");
  }
  void check(const std::string& address, std::span<const IoSlice> slices, BlockOwners::Kind kind,
             const std::string& what) {
    const Process* process = find(address);
    for (const IoSlice& slice : slices) {
      const std::optional<BlockId> block =
          process == nullptr ? std::nullopt : process->block_of(slice.data);
      if (block && process->owners().of(*block).kind != kind) {
        findings_.add(process->name() + ": bytes were " + what);
      }
    }
  }

  // No more trouble; time goes by until every deadline has passed.
  void calm_down() {
    faults_ = Faults{};
    for (Worker& worker : workers_) {
      worker.process() != nullptr ? worker.process()->stop({}) : begin(worker);
    }
    for (int i = 0; i < 300 && findings_.first().empty(); ++i) {
      clock_.advance(i < 150 ? Duration(20ms) : Duration(190ms));
      all_take_a_turn();
    }
    for (int i = 0; i < 300 && findings_.first().empty(); ++i) {
      clock_.advance(190ms);
      all_take_a_turn();
    }
    nothing_is_left();
  }

  void nothing_is_left() {
    for (const Worker& worker : workers_) {
      if (worker.p != nullptr && worker.p->running() + worker.p->core().transfers() != 0) {
        findings_.add(worker.name + ": a transfer has not ended");
      }
      if (worker.d != nullptr && worker.d->blocks_held() != 0) {
        findings_.add(worker.name + ": blocks are lost");
      }
      if (worker.d != nullptr && worker.d->core().tickets() != 0) {
        findings_.add(worker.name + ": a ticket has not ended");
      }
    }
    result_.requests = static_cast<int>(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      result_.completed += request.where == Request::Where::kDone ? 1 : 0;
      result_.failed += request.where == Request::Where::kFailed ? 1 : 0;
      if (request.where != Request::Where::kDone && request.where != Request::Where::kFailed &&
          clock_.now() > request.not_before) {
        findings_.add("request " + std::to_string(i) + " has not ended");
      }
    }
  }

  FakeClock clock_;
  Dice dice_;
  const std::function<void(const std::string&)> trace_;
  Faults faults_;
  const bool puts_ = dice_.chance(400);
  Findings findings_;
  ScheduleResult result_;
  std::vector<std::unique_ptr<TestPools>> graveyard_;
  Network network_;
  Fabric fabric_;
  World world_;
  std::vector<Request> requests_;
  std::vector<Worker> workers_;
};

}  // namespace

ScheduleResult run_schedule(uint64_t seed, std::function<void(const std::string&)> trace) {
  return Cluster(seed, std::move(trace)).run();
}

}  // namespace baton::kv_transfer::simulation
