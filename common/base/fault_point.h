#pragma once

// Faults on purpose. A build with -DBATON_FAULTS=ON has named points at which something goes wrong
// now and then, as a seed says (test.faults); in any other build kFaultPoints is false and every
// point, `if constexpr (kFaultPoints)`, is nothing: the programs hold no part of fault_point.cc.
// Only sources of the folders in BATON_FAULT_FOLDERS (CMakeLists.txt) may ask kFaultPoints, headers
// never: what they declare is the same in every build.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"

namespace baton {

#ifdef BATON_FAULTS
constexpr bool kFaultPoints = true;
#else
constexpr bool kFaultPoints = false;
#endif

enum class FaultPoint : uint8_t {
  kRouterLink,    // a message between router and worker is sent
  kPeerLink,      // a message between a prefill and a decode worker is sent
  kData,          // DATA is sent
  kSenderStep,    // a transfer changes its state
  kReceiverStep,  // a ticket changes its state
};
constexpr int kFaultPointCount = 5;

enum class FaultKind : uint8_t {
  kNone,
  kDrop,       // it never arrives, and the sender is told that it did
  kDelay,      // it arrives later; those after it wait, or the thread does
  kDuplicate,  // it arrives twice
  kReorder,    // it arrives later; those after it do not wait
  kTruncate,   // its second half is missing
  kCorrupt,    // one bit of it is another
  kFail,       // it is not sent, and the sender is told so
  kStop,       // the process stops (SIGSTOP); whoever has made it so makes it go on
  kKill,       // the process ends (SIGKILL)
};

std::string_view to_string(FaultPoint point);
std::string_view to_string(FaultKind kind);

struct FaultChoice {
  FaultKind kind = FaultKind::kNone;
  Duration delay{};   // of kDelay and kReorder
  uint64_t dice = 0;  // for what else there is to choose
};

// What goes wrong in one life of a process: a function of the seed, the process's name, the number
// of the life, the point, and how often the point was passed before. Thread-safe.
class FaultPlan {
 public:
  // `spec`: a seed, for which `random` gives the number of this life; or SEED:LIFE, as replay() of
  // an earlier life prints it.
  static Result<std::unique_ptr<FaultPlan>> create(std::string_view spec, std::string_view process,
                                                   Random& random);

  // What goes wrong this time. Logged, unless it is nothing.
  FaultChoice at(FaultPoint point);
  // The same, carried out: for points whose faults concern the whole thread or process.
  void disturb(FaultPoint point);
  // What repeats this life: "SEED:LIFE".
  const std::string& replay() const { return replay_; }

 private:
  FaultPlan(std::string replay, uint64_t stream) : replay_(std::move(replay)), stream_(stream) {}

  const std::string replay_;
  const uint64_t stream_;
  std::array<std::atomic<uint64_t>, kFaultPointCount> passed_{};
};

}  // namespace baton
