// The thread, sockets and data paths around a TransferCore.

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "common/base/bounded_queue.h"
#include "common/base/log.h"
#include "common/wire/sockets.h"
#include "kv_transfer/control_sockets.h"
#include "kv_transfer/core.h"
#include "kv_transfer/faulty_path.h"
#include "kv_transfer/transfer.h"
#include "kv_transfer/transports/inproc/inproc_path.h"
#include "kv_transfer/transports/pool/pool_path.h"
#include "kv_transfer/transports/ucx/ucx_path.h"

namespace baton::kv_transfer {
namespace {

constexpr Duration kSpin = 50us;
constexpr Duration kIdleWait = 50ms;  // descriptors may miss events: never sleep longer
constexpr size_t kMaxCommands = 1u << 20;
// The thread must answer create() within the handshake's limit and what UCX needs to start.
constexpr Duration kStartExtra = 10s;

Result<std::unique_ptr<DataPath>> open_path(const std::string& transport,
                                            const AgentOptions& options, Random& random) {
  if (transport == "pool") {
    BATON_ASSIGN_OR_RETURN(
        std::unique_ptr<PoolPath> path,
        PoolPath::create(options.pools, options.role == wire::Role::kDecode, random));
    return std::unique_ptr<DataPath>(std::move(path));
  }
  if (transport == "inproc") {
    if (options.inproc == nullptr) {
      return invalid_argument("transport inproc needs a place where agents meet");
    }
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<InprocPath> path, InprocPath::create(*options.inproc));
    return std::unique_ptr<DataPath>(std::move(path));
  }
  if (transport == "ucx-posix" || transport == "ucx-tcp") {
    UcxOptions ucx;
    ucx.transport = transport;
    ucx.devices = options.devices;
    ucx.start_limit = scaled(options.timeouts).handshake;
    ucx.close_limit = scaled(options.timeouts).endpoint_close / 20;
    return open_ucx_path(ucx);
  }
  return invalid_argument("unknown transport '" + transport +
                          "'; known are pool, ucx-posix, ucx-tcp, inproc");
}

}  // namespace

struct TransferAgent::State {
  using Command = std::function<void(TransferCore&)>;

  State(const AgentOptions& o, const Clock& c, Random& r, metrics::Registry& registry,
        std::function<void(Event)> event_sink)
      : options(o),
        clock(c),
        random(r),
        transfer_metrics(registry),
        on_event(std::move(event_sink)),
        wake_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        commands({kMaxCommands, SIZE_MAX}, [this] { wake(); }) {}
  ~State() { ::close(wake_fd); }

  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_fd, &one, sizeof(one));
  }
  void push(Command command) {
    if (commands.try_push(std::move(command)) == PushResult::kFull) {
      log_error("transfer agent: its queue is full, a call is lost");
    }
  }

  void run(std::promise<Status> started);
  Status start(std::unique_ptr<TransferCore>& core);
  void loop(TransferCore& core);
  void stop(TransferCore& core);
  int turn(TransferCore& core);
  bool sleep(TransferCore& core, Duration limit);
  void publish(TransferCore& core);

  AgentOptions options;
  const Clock& clock;
  Random& random;
  TransferMetrics transfer_metrics;
  const std::function<void(Event)> on_event;
  const int wake_fd;
  BoundedQueue<Command> commands;
  std::atomic<TransferId> next_transfer{1};
  std::atomic<bool> stopping{false};
  std::atomic<bool> stuck{false};
  std::atomic<double> bytes_per_s{0};
  std::atomic<int64_t> turned_ns{0};
  std::string listen_address;  // written before create() returns
  mutable Mutex mutex;
  std::vector<Link> links GUARDED_BY(mutex);

  // Of the thread.
  std::optional<wire::Context> own_context;
  std::unique_ptr<ControlSockets> sockets;
  std::vector<std::unique_ptr<DataPath>> paths;
  std::vector<pollfd> polled;

  std::jthread thread;  // last: everything else outlives it
};

Status TransferAgent::State::start(std::unique_ptr<TransferCore>& core) {
  if (wake_fd < 0) {
    return internal_error(std::string("eventfd: ") + std::strerror(errno));
  }
  if (options.context == nullptr) {
    options.context = &own_context.emplace();
  }
  BATON_ASSIGN_OR_RETURN(sockets, ControlSockets::open(*options.context, options.listen));
  listen_address = sockets->listen_address();
  std::vector<DataPath*> borrowed;
  if constexpr (kFaultPoints) {
    options.faults = options.context->faults();
  }
  for (const std::string& transport : options.transports) {
    Result<std::unique_ptr<DataPath>> opened = open_path(transport, options, random);
    const bool others = options.transports.size() > 1;
    if (!opened.ok() && opened.status().code() == StatusCode::kUnsupported && others) {
      log_warn("a transport is not offered", {{"reason", opened.status().message()}});
      continue;
    }
    BATON_RETURN_IF_ERROR(opened.status());
    std::unique_ptr<DataPath> path = std::move(*opened);
    if constexpr (kFaultPoints) {
      if (options.faults != nullptr) {
        path = std::make_unique<FaultyPath>(std::move(path), *options.faults, clock);
      }
    }
    borrowed.push_back(path.get());
    paths.push_back(std::move(path));
  }
  auto emit = [this, &core](Event event) {
    if (std::holds_alternative<PeerUp>(event) || std::holds_alternative<PeerLost>(event)) {
      publish(*core);
    }
    on_event(std::move(event));
  };
  core = std::make_unique<TransferCore>(options, borrowed, *sockets, clock, random,
                                        transfer_metrics, std::move(emit));
  turned_ns.store(clock.now().time_since_epoch().count(), std::memory_order_relaxed);
  return Status();
}

// Sockets and UCX workers belong to the thread that made them, so this one makes and ends them.
void TransferAgent::State::run(std::promise<Status> started) {
  pthread_setname_np(pthread_self(), "transfer");
  std::unique_ptr<TransferCore> core;
  Status status = start(core);
  const bool ok = status.ok();
  if (!ok) {
    core.reset();
    paths.clear();
    sockets.reset();
  }
  started.set_value(std::move(status));
  if (!ok) {
    return;
  }
  loop(*core);
  stop(*core);
  core.reset();
  paths.clear();
  sockets.reset();
  own_context.reset();
}

// What came from all sides; the number of things done.
int TransferAgent::State::turn(TransferCore& core) {
  int done = core.progress();
  while (std::optional<Command> command = commands.try_pop()) {
    (*command)(core);
    ++done;
  }
  done += sockets->receive(
      [&](ChannelId channel, Result<wire::Message> message) {
        core.on_message(channel, std::move(message));
      },
      [&](ChannelId channel, const std::string& why) { core.on_channel_lost(channel, why); });
  return done;
}

void TransferAgent::State::loop(TransferCore& core) {
  TimePoint next_sweep = clock.now();
  TimePoint last_work = next_sweep;
  while (!stopping.load(std::memory_order_relaxed)) {
    int done = turn(core);
    const TimePoint now = clock.now();
    turned_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    if (now >= next_sweep) {
      core.poll(stuck.load(std::memory_order_relaxed));
      sockets->report_refused(now);
      publish(core);
      const bool active = core.transfers() + core.tickets() > 0;
      next_sweep = now + (active ? TransferCore::kSweepInterval : kIdleWait);
      ++done;  // it may have sent: look at the sockets before sleeping
    }
    if (done > 0) {
      last_work = now;
      continue;
    }
    if (core.outstanding() && now - last_work < kSpin) {
      sched_yield();
      continue;
    }
    bool armed = true;
    for (const std::unique_ptr<DataPath>& path : paths) {
      armed = path->arm() && armed;
    }
    if (!armed) {
      continue;
    }
    if (sleep(core, next_sweep - now)) {
      next_sweep = now;
    }
  }
}

// True when a peer's process has ended.
bool TransferAgent::State::sleep(TransferCore& core, Duration limit) {
  std::vector<int> fds = core.process_fds();
  const size_t processes = fds.size();
  fds.push_back(wake_fd);
  sockets->append_fds(fds);
  for (const std::unique_ptr<DataPath>& path : paths) {
    fds.push_back(path->poll_fd());
  }
  polled.clear();
  for (const int fd : fds) {
    polled.push_back({fd, POLLIN, 0});
  }
  const auto wait = std::clamp<Duration>(limit, 0ns, kIdleWait);
  const timespec spec{0, static_cast<long>(wait.count())};
  if (ppoll(polled.data(), polled.size(), &spec, nullptr) <= 0) {
    return false;
  }
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd, &count, sizeof(count));
  return std::any_of(polled.begin(), polled.begin() + static_cast<ptrdiff_t>(processes),
                     [](const pollfd& p) { return p.revents != 0; });
}

void TransferAgent::State::publish(TransferCore& core) {
  bytes_per_s.store(core.bytes_per_s(), std::memory_order_relaxed);
  std::vector<Link> now_up = core.links();
  MutexLock lock(mutex);
  links.swap(now_up);
}

void TransferAgent::State::stop(TransferCore& core) {
  core.shut_down(cancelled("the worker is shutting down"));
  const TimePoint deadline = clock.now() + scaled(options.timeouts).endpoint_close;
  while (!core.idle() && clock.now() < deadline) {
    core.progress();
    core.poll(false);
    sched_yield();
  }
  if (!core.idle()) {
    log_warn("transfer agent: a peer's endpoint did not close in time");
  }
}

// ---------------------------------------------------------------- TransferAgent

Result<std::unique_ptr<TransferAgent>> TransferAgent::create(const AgentOptions& options,
                                                             const Clock& clock, Random& random,
                                                             metrics::Registry& registry,
                                                             std::function<void(Event)> on_event) {
  BATON_CHECK(!options.pools.empty(), "an agent has pools");
  if (options.transports.empty()) {
    return invalid_argument("an agent needs at least one transport");
  }
  if (options.incarnation.value == 0) {
    return invalid_argument("an agent needs an incarnation");
  }
  auto state = std::make_unique<State>(options, clock, random, registry, std::move(on_event));
  std::promise<Status> promise;
  std::future<Status> started = promise.get_future();
  State* borrowed = state.get();
  state->thread =
      std::jthread([borrowed, p = std::move(promise)]() mutable { borrowed->run(std::move(p)); });
  // Every step of the start has its own limit; this one is for a library that hangs, and then only
  // the end of the process helps.
  const Duration limit = scaled(options.timeouts).handshake + kStartExtra;
  BATON_CHECK(started.wait_for(limit) == std::future_status::ready,
              "the transfer agent's start hangs");
  BATON_RETURN_IF_ERROR(started.get());
  return std::unique_ptr<TransferAgent>(new TransferAgent(std::move(state)));
}

TransferAgent::TransferAgent(std::unique_ptr<State> state) : state_(std::move(state)) {}

TransferAgent::~TransferAgent() {
  state_->stopping.store(true, std::memory_order_relaxed);
  state_->commands.close();  // wakes the thread
  state_->thread.join();
}

std::string TransferAgent::listen_address() const { return state_->listen_address; }

TransferId TransferAgent::open(OpenTransfer request) {
  const TransferId id = state_->next_transfer.fetch_add(1, std::memory_order_relaxed);
  state_->push([id, r = std::move(request)](TransferCore& core) { core.open(id, r); });
  return id;
}

void TransferAgent::add_blocks(TransferId id, int group, std::vector<BlockId> blocks) {
  state_->push([=, b = std::move(blocks)](TransferCore& core) { core.add_blocks(id, group, b); });
}

void TransferAgent::layer_written(TransferId id, int rank, int layer, int tokens) {
  state_->push([=](TransferCore& core) { core.layer_written(id, rank, layer, tokens); });
}

void TransferAgent::commit(TransferId id, std::vector<wire::CommittedChoice> choices,
                           wire::RunTimings timings) {
  state_->push([id, c = std::move(choices), t = std::move(timings)](TransferCore& core) {
    core.commit(id, c, t);
  });
}

void TransferAgent::abort(TransferId id, std::string reason) {
  state_->push([id, r = std::move(reason)](TransferCore& core) { core.abort(id, r); });
}

void TransferAgent::grant(uint64_t reservation, std::vector<BlockId> blocks, int have_tokens,
                          WindowGrant window) {
  state_->push([=, b = std::move(blocks), w = std::move(window)](TransferCore& core) {
    core.grant(reservation, b, have_tokens, w);
  });
}

void TransferAgent::deny(uint64_t reservation, Status why, uint32_t retry_after_ms) {
  state_->push(
      [=, w = std::move(why)](TransferCore& core) { core.deny(reservation, w, retry_after_ms); });
}

void TransferAgent::abort_reservation(uint64_t reservation, std::string reason) {
  state_->push([reservation, r = std::move(reason)](TransferCore& core) {
    core.abort_reservation(reservation, r);
  });
}

std::vector<TransferAgent::Link> TransferAgent::links() const {
  MutexLock lock(state_->mutex);
  return state_->links;
}

void TransferAgent::set_stuck(bool stuck) { state_->stuck.store(stuck, std::memory_order_relaxed); }
double TransferAgent::measured_bytes_per_s() const {
  return state_->bytes_per_s.load(std::memory_order_relaxed);
}
TimePoint TransferAgent::last_turn() const {
  return TimePoint(Duration(state_->turned_ns.load(std::memory_order_relaxed)));
}

}  // namespace baton::kv_transfer
