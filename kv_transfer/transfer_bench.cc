#include "kv_transfer/transfer_bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <optional>
#include <thread>

#include "common/base/bounded_queue.h"
#include "common/base/file_descriptor.h"
#include "kv_transfer/transfer.h"

extern char** environ;  // NOLINT: posix_spawn wants it

namespace baton::kv_transfer {
namespace {

using kv_cache::KvPool;

constexpr int kLayers = 16;
constexpr Duration kStepLimit = 60s;
constexpr Incarnation kReceiver{2};
constexpr Incarnation kSender{1};

// One rank whose pieces of 32 tokens have the wanted size.
Result<KvPool> make_pool(size_t piece_bytes, size_t pool_bytes,
                         kv_cache::Backing backing = kv_cache::Backing::kPrivate) {
  constexpr size_t kBytesPerDim = 2 * sizeof(uint16_t) * kv_cache::kGroupTokens;  // K and V
  const int dim = piece_bytes % (64 * kBytesPerDim) == 0 ? 64 : 32;
  const size_t head_bytes = kBytesPerDim * static_cast<size_t>(dim);
  if (piece_bytes == 0 || piece_bytes % head_bytes != 0) {
    return invalid_argument("a piece of " + std::to_string(piece_bytes) +
                            " bytes; multiples of 4096 are possible");
  }
  kv_cache::CacheGroup group;
  group.layers = kLayers;
  group.kv_heads = static_cast<int>(piece_bytes / head_bytes);
  group.k_dim = group.v_dim = dim;
  kv_cache::KvLayout layout;
  layout.groups = {group};
  const size_t blocks = std::max<size_t>(1, pool_bytes / (piece_bytes * kLayers));
  return KvPool::create(layout, {0, group.kv_heads}, {static_cast<int>(blocks)},
                        kv_cache::Touch::kNow, backing);
}

std::vector<BlockId> all_blocks(const KvPool& pool) {
  std::vector<BlockId> ids(static_cast<size_t>(pool.blocks()));
  std::iota(ids.begin(), ids.end(), BlockId{0});
  return ids;
}

// An agent with what it needs, and its events.
struct Side {
  SteadyClock clock;
  SystemRandom random;
  metrics::Registry registry;
  BoundedQueue<Event> events{{1u << 16, SIZE_MAX}};
  std::unique_ptr<TransferAgent> agent;

  explicit Side(metrics::Exporter exporter) : registry({exporter, "bench", "bench", 1000}) {}
  ~Side() { agent.reset(); }

  Status start(const KvPool& pool, const std::string& transport, bool digest, bool receiver) {
    AgentOptions options;
    options.role = receiver ? wire::Role::kDecode : wire::Role::kPrefill;
    options.name = receiver ? "receiver" : "sender";
    options.incarnation = receiver ? kReceiver : kSender;
    options.listen = receiver ? "tcp://127.0.0.1:0" : "";
    options.transports = {transport};
    options.digest = digest;
    options.numerics = "bench";
    options.pools = {&pool};
    options.timeouts.handshake = 10s;
    BATON_ASSIGN_OR_RETURN(
        agent, TransferAgent::create(options, clock, random, registry, [this](Event event) {
          (void)events.try_push(std::move(event));
        }));
    return Status();
  }

  // The next event of type T; failures end the wait.
  template <typename T>
  Result<T> wait_for() {
    const TimePoint deadline = clock.now() + kStepLimit;
    while (std::optional<Event> event = events.pop_until(deadline)) {
      if (T* wanted = std::get_if<T>(&*event)) {
        return std::move(*wanted);
      }
      if (const auto* failed = std::get_if<TransferFailed>(&*event)) {
        return failed->status;
      }
    }
    return deadline_exceeded("the benchmark's transfer does not end");
  }
};

// The receiving process.
class Child {
 public:
  static Result<std::unique_ptr<Child>> start(const std::vector<std::string>& command,
                                              const std::vector<std::string>& arguments);
  ~Child() {
    ::close(in_);
    ::close(out_);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Result<std::string> read_line();

 private:
  Child() = default;
  pid_t pid_ = -1;
  int in_ = -1;   // its standard input; it ends when we close it
  int out_ = -1;  // its standard output
};

Result<std::unique_ptr<Child>> Child::start(const std::vector<std::string>& command,
                                            const std::vector<std::string>& arguments) {
  if (command.empty()) {
    return invalid_argument("the benchmark needs a program for its second process");
  }
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    return internal_error(std::string("pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> words = command;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  if (error != 0) {
    ::close(in[1]);
    ::close(out[0]);
    return internal_error("cannot start " + command.front() + ": " + std::strerror(error));
  }
  std::unique_ptr<Child> child(new Child);
  child->pid_ = pid;
  child->in_ = in[1];
  child->out_ = out[0];
  return child;
}

Result<std::string> Child::read_line() {
  std::string line;
  const TimePoint deadline = std::chrono::steady_clock::now() + kStepLimit;
  for (;;) {
    const auto left = std::chrono::steady_clock::now() >= deadline
                          ? 0
                          : static_cast<int>(to_ms(deadline - std::chrono::steady_clock::now()));
    pollfd polled{out_, POLLIN, 0};
    char c = 0;
    if (::poll(&polled, 1, left) != 1 || ::read(out_, &c, 1) != 1) {
      return unavailable("the benchmark's second process did not start");
    }
    if (c == '\n') {
      return line;
    }
    line += c;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values.empty()
             ? 0
             : values[std::min(values.size() - 1,
                               static_cast<size_t>(p * static_cast<double>(values.size())))];
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Piece by piece, as the transfer moves it.
double memcpy_gb_per_s(const KvPool& to, const KvPool& from) {
  const TimePoint begin = std::chrono::steady_clock::now();
  for (int layer = 0; layer < from.layers(); ++layer) {
    for (BlockId id = 0; id < static_cast<BlockId>(from.blocks()); ++id) {
      std::memcpy(to.block(layer, id), from.block(layer, id), from.block_bytes());
    }
  }
  const double seconds = to_seconds(std::chrono::steady_clock::now() - begin);
  return static_cast<double>(from.bytes()) / seconds / 1e9;
}

// Both ends of a connection over loopback; no call on them takes longer than kStepLimit.
Result<std::array<FileDescriptor, 2>> loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  FileDescriptor from(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool connected = bind(listener.get(), any, length) == 0 && listen(listener.get(), 1) == 0 &&
                         getsockname(listener.get(), any, &length) == 0 &&
                         connect(from.get(), any, length) == 0;
  FileDescriptor to(connected ? accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
  if (!to.open()) {
    return internal_error(std::string("a connection over loopback: ") + std::strerror(errno));
  }
  const timeval limit{std::chrono::duration_cast<std::chrono::seconds>(kStepLimit).count(), 0};
  for (const FileDescriptor* end : {&from, &to}) {
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(end->get(), SOL_SOCKET, option, &limit, sizeof(limit));
    }
  }
  return std::array<FileDescriptor, 2>{std::move(from), std::move(to)};
}

constexpr size_t kSocketCall = 256u << 10;

// Takes rounds of `target`'s size, each answered by a byte, until the other end is shut.
void answer_rounds(int socket, std::vector<char>& target) {
  size_t got = 0;
  while (true) {
    const ssize_t n =
        recv(socket, target.data() + got, std::min(kSocketCall, target.size() - got), 0);
    if (n <= 0) {
      return;
    }
    got += static_cast<size_t>(n);
    if (got < target.size()) {
      continue;
    }
    got = 0;
    if (::send(socket, "", 1, MSG_NOSIGNAL) != 1) {
      return;
    }
  }
}

// One round from its first byte to the answer.
bool send_round(int socket, const std::vector<char>& source) {
  for (size_t sent = 0; sent < source.size();) {
    const ssize_t n = ::send(socket, source.data() + sent,
                             std::min(kSocketCall, source.size() - sent), MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    sent += static_cast<size_t>(n);
  }
  char answer = 0;
  return recv(socket, &answer, 1, 0) == 1;
}

// How fast a plain socket carries as much as is pushed, until the receiver has answered.
Result<double> socket_gb_per_s(size_t bytes, int repeats) {
  constexpr size_t kMostBytes = 256u << 20;
  BATON_ASSIGN_OR_RETURN(const auto ends, loopback());
  const std::vector<char> source(std::min(bytes, kMostBytes));
  std::vector<char> target(source.size());
  const std::jthread receiver([&] { answer_rounds(ends[1].get(), target); });
  std::vector<double> rates;
  bool good = true;
  for (int i = 0; i < repeats && good; ++i) {
    const TimePoint begin = std::chrono::steady_clock::now();
    good = send_round(ends[0].get(), source);
    const double seconds = to_seconds(std::chrono::steady_clock::now() - begin);
    rates.push_back(static_cast<double>(source.size()) / seconds / 1e9);
  }
  shutdown(ends[0].get(), SHUT_WR);  // ends the receiver
  return good ? Result<double>(median(rates))
              : internal_error("the connection over loopback does not carry on");
}

OpenTransfer request_for(const std::string& address, std::vector<BlockId> blocks, int tokens) {
  OpenTransfer request;
  request.target = {"receiver", kReceiver, address};
  request.body.key.request = RequestId{U128{1, 1}};
  request.body.prompt = {0};
  request.kv_tokens = tokens;
  request.blocks = std::move(blocks);
  request.deadline = TimePoint::max();
  return request;
}

Result<double> push_gb_per_s(Side& side, const KvPool& pool, const std::string& address) {
  const int tokens = pool.blocks() * pool.layout().block_tokens;
  const TransferId id = side.agent->open(request_for(address, all_blocks(pool), tokens));
  side.agent->commit(id, {{}}, {});
  BATON_ASSIGN_OR_RETURN(const TransferAcked acked, side.wait_for<TransferAcked>());
  return static_cast<double>(acked.bytes) / acked.seconds / 1e9;
}

// The round trips of the control plane, with one piece per layer each.
Status measure_control(Side& side, const std::string& address, int rounds,
                       TransferBenchReport& report) {
  std::vector<double> grants;
  std::vector<double> commits;
  for (int i = 0; i < rounds; ++i) {
    const TimePoint begin = side.clock.now();
    const TransferId id = side.agent->open(request_for(address, {0}, kv_cache::kGroupTokens));
    BATON_RETURN_IF_ERROR(side.wait_for<TransferGranted>().status());
    grants.push_back(to_ms(side.clock.now() - begin));
    side.agent->commit(id, {{}}, {});
    BATON_ASSIGN_OR_RETURN(const TransferAcked acked, side.wait_for<TransferAcked>());
    commits.push_back(acked.visible_seconds * 1e3);
  }
  report.reserve_to_grant_p50_ms = percentile(grants, 0.5);
  report.reserve_to_grant_p99_ms = percentile(grants, 0.99);
  report.commit_to_ack_p50_ms = percentile(commits, 0.5);
  report.commit_to_ack_p99_ms = percentile(commits, 0.99);
  return Status();
}

void measure_idle(TransferBenchReport& report) {
  constexpr Duration kIdle = 1s;
  const double cpu = cpu_seconds();
  std::this_thread::sleep_for(kIdle);
  report.idle_cpu_share = (cpu_seconds() - cpu) / to_seconds(kIdle);
}

Status measure_piece(const TransferBenchOptions& options, size_t piece_bytes, bool first,
                     TransferBenchReport& report) {
  BATON_ASSIGN_OR_RETURN(const KvPool pool, make_pool(piece_bytes, options.pool_bytes));
  BATON_ASSIGN_OR_RETURN(const KvPool copy, make_pool(piece_bytes, options.pool_bytes));
  TransferBenchRow row;
  row.piece_bytes = piece_bytes;
  std::vector<double> copies;
  for (const bool digest : {false, true}) {
    BATON_ASSIGN_OR_RETURN(
        const std::unique_ptr<Child> child,
        Child::start(options.child_command,
                     {options.transport, std::to_string(piece_bytes),
                      std::to_string(options.pool_bytes), digest ? "digest" : "plain"}));
    BATON_ASSIGN_OR_RETURN(const std::string address, child->read_line());
    Side side(metrics::kByPrefill);
    BATON_RETURN_IF_ERROR(side.start(pool, options.transport, digest, false));
    std::vector<double> rates;
    for (int i = 0; i < options.repeats; ++i) {
      if (!digest) {
        copies.push_back(memcpy_gb_per_s(copy, pool));
      }
      BATON_ASSIGN_OR_RETURN(const double rate, push_gb_per_s(side, pool, address));
      rates.push_back(rate);
    }
    (digest ? row.digest_gb_per_s : row.gb_per_s) = median(rates);
    if (!digest) {
      row.slowest_gb_per_s = *std::min_element(rates.begin(), rates.end());
    }
    if (first && !digest) {
      BATON_RETURN_IF_ERROR(measure_control(side, address, options.reserve_rounds, report));
      measure_idle(report);
    }
  }
  row.memcpy_gb_per_s = median(copies);
  report.rows.push_back(row);
  return Status();
}

}  // namespace

Result<TransferBenchReport> run_transfer_bench(const TransferBenchOptions& options) {
  if (options.repeats < 1 || options.reserve_rounds < 1 || options.piece_bytes.empty()) {
    return invalid_argument("bench transfer: nothing to measure");
  }
  TransferBenchReport report;
  report.transport = options.transport;
  if (options.transport == "ucx-tcp") {
    BATON_ASSIGN_OR_RETURN(report.socket_gb_per_s,
                           socket_gb_per_s(options.pool_bytes, options.repeats));
  }
  for (const size_t piece_bytes : options.piece_bytes) {
    const Status status = measure_piece(options, piece_bytes, report.rows.empty(), report);
    if (!status.ok()) {
      return status.with_context("bench transfer, pieces of " + std::to_string(piece_bytes));
    }
  }
  return report;
}

int run_transfer_bench_child(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fprintf(stderr, "the receiving process of a benchmark takes 4 arguments\n");
    return 2;
  }
  Result<KvPool> pool =
      make_pool(std::strtoull(arguments[1].c_str(), nullptr, 10),
                std::strtoull(arguments[2].c_str(), nullptr, 10),
                arguments[0] == "pool" ? kv_cache::Backing::kShared : kv_cache::Backing::kPrivate);
  Side side(metrics::kByDecode);
  const Status status =
      pool.ok() ? side.start(*pool, arguments[0], arguments[3] == "digest", true) : pool.status();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return 1;
  }
  std::printf("%s\n", side.agent->listen_address().c_str());
  std::fflush(stdout);
  const std::vector<BlockId> blocks = all_blocks(*pool);
  // A pipe that closes is readable: the parent has ended or wants us to.
  std::jthread watcher([&side](const std::stop_token& stop) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (!stop.stop_requested() && ::poll(&input, 1, 100) == 0) {
    }
    side.events.close();
  });
  while (!side.events.closed()) {
    std::optional<Event> event = side.events.pop_until(side.clock.now() + 1s);
    if (!event) {
      continue;
    }
    if (const auto* reserve = std::get_if<ReserveArrived>(&*event)) {
      const auto count = static_cast<size_t>((reserve->kv_tokens + kv_cache::kGroupTokens - 1) /
                                             kv_cache::kGroupTokens);
      side.agent->grant(reserve->reservation,
                        {blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(count)}, 0);
    }
  }
  return 0;
}

}  // namespace baton::kv_transfer
