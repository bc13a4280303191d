#pragma once

// The roofline of the machine for a set of weights, as one thread of a rank sees it: benchmarks
// divide their speeds by it (docs/performance.md). Run it on every compute thread at once and add.

#include <cstddef>
#include <span>

#include "common/base/clock.h"
#include "common/device/isa.h"
#include "common/model/weights.h"

namespace baton::model {

struct MachineProbe {
  double flops = 0;             // FLOP/s of the products' inner instruction
  double read_bytes_per_s = 0;  // of reading the weights, which every decode step does
};

// Of thread `thread` of `threads` of the rank: peak arithmetic for about `time`, then its share of
// the matrices read one after the other, again and again, for about `time`.
MachineProbe probe_machine(const RankWeights& weights, int thread, int threads, device::Isa isa,
                           const Clock& clock, Duration time);

// The same before there are weights: of one thread, reading `buffer` in their place.
MachineProbe probe_machine(std::span<const std::byte> buffer, device::Isa isa, const Clock& clock,
                           Duration time);

}  // namespace baton::model
