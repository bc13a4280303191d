#include "common/kernels/probe/probe.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/kernels/probe/probe_levels.h"

namespace baton::kernels {
namespace {

TEST(ProbeTest, EveryLevelGivesAPositiveSpeed) {
  const SteadyClock clock;
  const std::vector<std::byte> data(size_t{1} << 20, std::byte{7});
  for (const device::Isa isa : device::available_isas()) {
    EXPECT_GT(probe_peak_flops(isa, clock, 1ms), 1e7);
    EXPECT_GT(probe_read_bytes(isa, clock, data, 1ms), 1e7);
  }
}

TEST(ProbeTest, VectorsBeatOneLane) {
  const SteadyClock clock;
  const device::Isa best = device::available_isas().back();
  if (best == device::Isa::kScalar) {
    return;  // nothing to compare on this machine
  }
  EXPECT_GT(probe_peak_flops(best, clock, 2ms), probe_peak_flops(device::Isa::kScalar, clock, 2ms));
}

}  // namespace
}  // namespace baton::kernels
