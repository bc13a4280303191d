#include "common/base/fault_point.h"

#include <charconv>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/log.h"

namespace baton {
namespace {

constexpr uint64_t kWhole = 100'000;

// How often, of kWhole times that a point is passed. Messages between router and worker are not
// repeated by anybody, as a connection loses none: they come late or twice, but they come.
struct Rate {
  FaultPoint point;
  FaultKind kind;
  uint64_t often;
  Duration most{};  // of a delay
};
constexpr std::array kRates = {
    Rate{FaultPoint::kRouterLink, FaultKind::kDelay, 1'000, 150ms},
    Rate{FaultPoint::kRouterLink, FaultKind::kDuplicate, 1'000},
    Rate{FaultPoint::kPeerLink, FaultKind::kDrop, 1'000},
    Rate{FaultPoint::kPeerLink, FaultKind::kDelay, 2'000, 400ms},
    Rate{FaultPoint::kPeerLink, FaultKind::kDuplicate, 2'000},
    Rate{FaultPoint::kPeerLink, FaultKind::kReorder, 2'000, 100ms},
    Rate{FaultPoint::kPeerLink, FaultKind::kTruncate, 200},
    Rate{FaultPoint::kData, FaultKind::kDrop, 50},
    Rate{FaultPoint::kData, FaultKind::kDelay, 500, 200ms},
    Rate{FaultPoint::kData, FaultKind::kDuplicate, 500},
    Rate{FaultPoint::kData, FaultKind::kReorder, 500, 50ms},
    Rate{FaultPoint::kData, FaultKind::kTruncate, 50},
    Rate{FaultPoint::kData, FaultKind::kCorrupt, 50},
    Rate{FaultPoint::kData, FaultKind::kFail, 50},
    Rate{FaultPoint::kSenderStep, FaultKind::kDelay, 200, 300ms},
    Rate{FaultPoint::kSenderStep, FaultKind::kStop, 50},
    Rate{FaultPoint::kSenderStep, FaultKind::kKill, 50},
    Rate{FaultPoint::kReceiverStep, FaultKind::kDelay, 100, 300ms},
    Rate{FaultPoint::kReceiverStep, FaultKind::kStop, 20},
    Rate{FaultPoint::kReceiverStep, FaultKind::kKill, 20},
};

// SplitMix64's finish.
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15ull * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string_view to_string(FaultPoint point) {
  constexpr std::array<std::string_view, kFaultPointCount> kNames = {
      "router_link", "peer_link", "data", "sender_step", "receiver_step"};
  return kNames[static_cast<size_t>(point)];
}

std::string_view to_string(FaultKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "none",     "drop",    "delay", "duplicate", "reorder",
      "truncate", "corrupt", "fail",  "stop",      "kill"};
  return kNames[static_cast<size_t>(kind)];
}

Result<std::unique_ptr<FaultPlan>> FaultPlan::create(std::string_view spec,
                                                     std::string_view process, Random& random) {
  const size_t colon = spec.find(':');
  const std::optional<uint64_t> seed = number(spec.substr(0, colon));
  const std::optional<uint64_t> life = colon == std::string_view::npos
                                           ? std::optional(random.next() >> 32)
                                           : number(spec.substr(colon + 1));
  if (!seed || !life) {
    return invalid_argument("test.faults: '" + std::string(spec) + "' is not SEED or SEED:LIFE");
  }
  uint64_t stream = mix(*seed, *life);
  for (const char c : process) {
    stream = mix(stream, static_cast<unsigned char>(c));
  }
  std::string replay = std::to_string(*seed) + ":" + std::to_string(*life);
  log_warn("faults are on", {{"replay", replay}});
  return std::unique_ptr<FaultPlan>(new FaultPlan(std::move(replay), stream));
}

FaultChoice FaultPlan::at(FaultPoint point) {
  const auto index = static_cast<size_t>(point);
  const uint64_t time = passed_[index].fetch_add(1, std::memory_order_relaxed);
  const uint64_t dice = mix(mix(stream_, index), time);
  uint64_t left = dice % kWhole;
  for (const Rate& rate : kRates) {
    if (rate.point != point) {
      continue;
    }
    if (left < rate.often) {
      const uint64_t next = mix(dice, 1);
      const auto most = static_cast<uint64_t>(rate.most.count());
      log_info("fault", {{"point", std::string(to_string(point))},
                         {"kind", std::string(to_string(rate.kind))},
                         {"time", time}});
      return {rate.kind, Duration(static_cast<Duration::rep>(most == 0 ? 0 : next % most)), next};
    }
    left -= rate.often;
  }
  return {};
}

void FaultPlan::disturb(FaultPoint point) {
  const FaultChoice choice = at(point);
  if (choice.kind == FaultKind::kDelay) {
    std::this_thread::sleep_for(choice.delay);
  } else if (choice.kind == FaultKind::kStop) {
    std::raise(SIGSTOP);
  } else if (choice.kind == FaultKind::kKill) {
    std::raise(SIGKILL);
  }
}

}  // namespace baton
