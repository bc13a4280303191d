#include "common/model/machine_probe.h"

#include <span>

#include "common/kernels/probe/probe.h"

namespace baton::model {
namespace {

// Reads one thread's share of a rank's matrices, once a pass.
class ShareReader {
 public:
  ShareReader(int thread, int threads, device::Isa isa, const Clock& clock, Duration time)
      : thread_(thread), threads_(threads), isa_(isa), clock_(clock), until_(clock.now() + time) {}

  bool over() const { return bytes_ > 0 && clock_.now() >= until_; }

  double bytes() const { return bytes_; }

  void read(const RankWeights& weights) {
    for (const LayerWeights& layer : weights.layers) {
      read(layer.qkv);
      read(layer.attn_output);
      read(layer.gate_up);
      read(layer.ffn_down);
    }
    read(weights.head);
  }

 private:
  void read(const Projection& projection) {
    for (const ProjectionPart& part : projection.parts) {
      read(part.weights);
    }
  }
  void read(const std::vector<SegmentMatrix>& segments) {
    for (const SegmentMatrix& segment : segments) {
      read(segment.weights);
    }
  }
  void read(const kernels::PackedMatrix& matrix) {
    const int begin = matrix.panels() * thread_ / threads_;
    const int end = matrix.panels() * (thread_ + 1) / threads_;
    const size_t size = matrix.panel_bytes() * static_cast<size_t>(end - begin);
    if (size > 0 && !over()) {  // large weights take much longer than the probe
      kernels::probe_read_bytes(isa_, clock_, std::span(matrix.panel(begin), size), Duration(0));
      bytes_ += static_cast<double>(size);
    }
  }

  const int thread_;
  const int threads_;
  const device::Isa isa_;
  const Clock& clock_;
  const TimePoint until_;
  double bytes_ = 0;
};

}  // namespace

MachineProbe probe_machine(const RankWeights& weights, int thread, int threads, device::Isa isa,
                           const Clock& clock, Duration time) {
  MachineProbe probe;
  probe.flops = kernels::probe_peak_flops(isa, clock, time);
  const TimePoint begin = clock.now();
  ShareReader reader(thread, threads, isa, clock, time);
  TimePoint end = begin;
  do {
    reader.read(weights);
    end = clock.now();
  } while (end - begin < time);
  probe.read_bytes_per_s = reader.bytes() / to_seconds(end - begin);
  return probe;
}

MachineProbe probe_machine(std::span<const std::byte> buffer, device::Isa isa, const Clock& clock,
                           Duration time) {
  return {.flops = kernels::probe_peak_flops(isa, clock, time),
          .read_bytes_per_s = kernels::probe_read_bytes(isa, clock, buffer, time)};
}

}  // namespace baton::model
