#pragma once

// What the machine can do at this moment: the yardsticks of every benchmark. A speed divided by a
// probe of the same second says something; a speed alone moves by 2x with the neighbours' load.
//
// The functions work in the calling thread; for the machine's figure run them on every compute
// thread at once and add.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/clock.h"
#include "common/device/isa.h"

namespace baton::kernels {

// FLOP/s of the instruction that products are made of, over about `time`: independent f32 fused
// multiply-adds (kScalar: of one lane), an addition and a multiplication each; kAvx512, where
// has_bf16_dot(), bf16 dot products; kAmx bf16 tile products.
double probe_peak_flops(device::Isa isa, const Clock& clock, Duration time);

// Bytes/s of reading `data` from end to end once, and again until `time` has passed. The buffer
// should be the one that the measured work reads, larger than the caches if that work's is.
double probe_read_bytes(device::Isa isa, const Clock& clock, std::span<const std::byte> data,
                        Duration time);

}  // namespace baton::kernels
