#include "common/model/machine_probe.h"

#include <gtest/gtest.h>

#include "common/model/open_model.h"

namespace baton::model {
namespace {

std::unique_ptr<Weights> tiny_weights() {
  OpenModel opened = open_model(BATON_SOURCE_DIR "/tests/data/models/tiny_q4_1.gguf").value();
  const SegmentPlan plan = SegmentPlan::create(opened.description, 1, 1).value();
  return Weights::load(std::move(opened.file), opened.description, plan, WeightPool::kDecode)
      .value();
}

// Time passes by 1 ms at every look.
class TickingClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(ticks_ += 1ms); }

 private:
  mutable Duration ticks_{1s};
};

TEST(MachineProbeTest, MeasuresEveryLevel) {
  const std::unique_ptr<Weights> weights = tiny_weights();
  const SteadyClock clock;
  for (const device::Isa isa : device::available_isas()) {
    const MachineProbe probe = probe_machine(weights->rank(0), 0, 1, isa, clock, 1ms);
    EXPECT_GT(probe.flops, 1e6) << device::isa_name(isa);
    EXPECT_GT(probe.read_bytes_per_s, 1e6) << device::isa_name(isa);
  }
}

TEST(MachineProbeTest, ThreadsShareTheMatrices) {
  const std::unique_ptr<Weights> weights = tiny_weights();
  const device::Isa isa = device::Isa::kScalar;
  // One pass of one thread, and the passes of two, read the same bytes.
  const auto bytes = [&](int thread, int threads) {
    const TickingClock rate_clock;
    const MachineProbe probe =
        probe_machine(weights->rank(0), thread, threads, isa, rate_clock, 1ns);
    return probe.read_bytes_per_s;
  };
  EXPECT_GT(bytes(0, 1), bytes(0, 2));
  EXPECT_GT(bytes(0, 1), bytes(1, 2));
}

}  // namespace
}  // namespace baton::model
