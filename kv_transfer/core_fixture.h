#pragma once

// For tests: two cores, P and D, under a clock that moves when told, with a network in memory and
// the in-process data path. Nothing happens by itself: settle() delivers, pass() lets time go by.

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kv_transfer/core.h"
#include "kv_transfer/test_worker.h"
#include "kv_transfer/transports/inproc/inproc_path.h"
#include "kv_transfer/transports/pool/pool_path.h"

namespace baton::kv_transfer {

// One link between P and D; each side's port is an end of it. Messages wait until delivered, and
// can be dropped or looked at on the way.
class Network {
 public:
  struct End final : ControlPort {
    Result<ChannelId> connect(const std::string& address) override {
      if (address.starts_with("bad")) {
        return invalid_argument("bad address");
      }
      ++connects;
      // Both ends name a connection alike.
      return static_cast<ChannelId>(connects);
    }
    Status send(ChannelId channel, const wire::Message& message) override {
      if (broken) {
        return unavailable("broken");
      }
      sent.emplace_back(channel, message);
      return Status();
    }
    void close(ChannelId channel) override { closed.push_back(channel); }
    std::deque<std::pair<ChannelId, wire::Message>> sent;
    std::vector<ChannelId> closed;
    int connects = 0;
    bool broken = false;
  };
  End p, d;
};

class CoreTest : public testing::Test {
 protected:
  CoreTest()
      : registry_p_({metrics::kByPrefill, "m", "p0", 1000}),
        registry_d_({metrics::kByDecode, "m", "d0", 1000}),
        metrics_p_(registry_p_),
        metrics_d_(registry_d_),
        path_p_(InprocPath::create(hub_).value()),
        path_d_(InprocPath::create(hub_).value()) {}

  void start(const TestShape& p = {}, TestShape d = {}, bool digest = true) {
    d.shared = puts_;
    pools_p_.emplace(p);
    pools_d_.emplace(d);
    if (puts_) {
      path_p_ = std::move(PoolPath::create(pools_p_->pointers(), false, random_).value());
      path_d_ = std::move(PoolPath::create(pools_d_->pointers(), true, random_).value());
    }
    AgentOptions options_p = test_options(*pools_p_, wire::Role::kPrefill, "p0", 11);
    AgentOptions options_d = test_options(*pools_d_, wire::Role::kDecode, "d0", 22);
    options_p.digest = options_d.digest = digest;
    core_p_ = make(options_p, *path_p_, net_.p, at_p_);
    core_d_ = make(options_d, *path_d_, net_.d, at_d_);
  }
  std::unique_ptr<TransferCore> make(const AgentOptions& options, DataPath& path, ControlPort& port,
                                     EventLog& log) {
    TransferMetrics& metrics = options.role == wire::Role::kPrefill ? metrics_p_ : metrics_d_;
    return std::make_unique<TransferCore>(options, std::vector<DataPath*>{&path}, port, clock_,
                                          random_, metrics, log.sink());
  }

  // Delivers what is on its way and lets the data paths work, until nothing happens any more.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      int done = core_p_->progress() + core_d_->progress();
      done += deliver(net_.p, *core_d_) + deliver(net_.d, *core_p_);
      quiet = done == 0 ? quiet + 1 : 0;
    }
  }
  int deliver(Network::End& from, TransferCore& to) {
    int done = 0;
    while (!from.sent.empty()) {
      auto [channel, message] = std::move(from.sent.front());
      from.sent.pop_front();
      if (!drop_ || !drop_(message)) {
        to.on_message(channel, std::move(message));
      }
      ++done;
    }
    return done;
  }
  // Time passes in steps, as it does for an agent.
  void pass(Duration time, Duration step = 100ms) {
    for (Duration t{}; t < time; t += step) {
      clock_.advance(step);
      core_p_->poll(stuck_p_);
      core_d_->poll(false);
      settle();
    }
  }

  TransferId open(int tokens, TimePoint deadline = TimePoint::max()) {
    OpenTransfer request;
    request.target = {"d0", Incarnation{22}, "net"};
    request.body = test_body(tokens, next_id_);
    request.kv_tokens = tokens;
    request.deadline = deadline;
    const int blocks = pools_p_->blocks_for(tokens);
    for (int i = 0; i < blocks; ++i) {
      request.blocks.push_back(static_cast<BlockId>(i));
    }
    if (windows()) {
      request.window_blocks = request.blocks;
    }
    if (fill_on_open_) {
      pools_p_->zero_values(request.blocks);
      pools_p_->write(request.blocks, 1, 0, tokens);
      if (windows()) {
        pools_p_->zero_values(request.blocks, 1);
        pools_p_->write(request.blocks, 1, first_seen(tokens), tokens, 1);
      }
    }
    const TransferId id = next_id_++;
    core_p_->open(id, std::move(request));
    settle();
    return id;
  }
  bool windows() const { return !pools_p_->shape().layer_groups.empty(); }
  // The first token of the window group that travels.
  int first_seen(int tokens) const {
    const kv_cache::KvLayout layout = pools_p_->shape().layout();
    return layout.groups.back().first_visible(tokens) / layout.block_tokens * layout.block_tokens;
  }
  std::vector<BlockId> table_d(int tokens) {
    std::vector<BlockId> table;
    for (int i = 0; i < pools_d_->blocks_for(tokens); ++i) {
      table.push_back(static_cast<BlockId>(30 + i));
    }
    return table;
  }
  // Opens and grants; the reservation.
  uint64_t granted(int tokens, TransferId* id = nullptr, int have = 0) {
    const TransferId opened = open(tokens);
    if (id != nullptr) {
      *id = opened;
    }
    const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
    EXPECT_TRUE(reserve);
    WindowGrant window;
    if (windows()) {
      window = {table_d(tokens), std::max(have, first_seen(tokens))};
    }
    core_d_->grant(reserve->reservation, table_d(tokens), have, std::move(window));
    settle();
    return reserve->reservation;
  }
  void write_all(TransferId id, int tokens) {
    for (int layer = 0; layer < pools_p_->shape().layers; ++layer) {
      for (size_t rank = 0; rank < pools_p_->shape().ranks.size(); ++rank) {
        core_p_->layer_written(id, static_cast<int>(rank), layer, tokens);
      }
    }
  }
  template <typename T>
  bool happened(EventLog& log) {
    return log.take<T>({}, 0s).has_value();
  }
  double dropped(DropReason reason) {
    const auto id = metrics::MetricId::kKvMessagesDropped;
    return registry_p_.counter(id, {to_string(reason)}).value() +
           registry_d_.counter(id, {to_string(reason)}).value();
  }

  FakeClock clock_;
  SeededRandom random_{7};
  metrics::Registry registry_p_, registry_d_;
  TransferMetrics metrics_p_, metrics_d_;
  InprocHub hub_;
  std::unique_ptr<DataPath> path_p_, path_d_;
  Network net_;
  EventLog at_p_, at_d_;
  std::optional<TestPools> pools_p_, pools_d_;
  std::unique_ptr<TransferCore> core_p_, core_d_;
  std::function<bool(const wire::Message&)> drop_;
  bool stuck_p_ = false;
  bool puts_ = false;  // the data path: in-process, or puts into D's pools
  bool fill_on_open_ = true;
  TransferId next_id_ = 1;
};

}  // namespace baton::kv_transfer
