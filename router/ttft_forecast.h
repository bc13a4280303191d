#pragma once

// Whether a first token would come in time. Placement predicts from the tokens that wait at a
// worker and the rate that it measures of itself; what that leaves out (shared CPUs, full pools)
// shows in how late first tokens come. Used by the router loop only.

namespace baton::router {

class TtftForecast {
 public:
  // A first token that was predicted to take `predicted_ms` took `measured_ms`. Short predictions
  // tell of fixed costs, not of the rate: those below `least_ms` count for nothing.
  void observe(double predicted_ms, double measured_ms, double least_ms);
  // In nine of ten cases no more than this: who is let in meets the limit.
  double at_most_ms(double predicted_ms) const { return predicted_ms * factor_; }

 private:
  // Moves up nine times as far as down: at rest one of ten comes later.
  static constexpr double kUp = 1.09;
  static constexpr double kDown = 0.99;
  static constexpr double kLeast = 0.1;  // prefixes that were cached count as computed
  static constexpr double kMost = 8;
  double factor_ = 1.2;
};

}  // namespace baton::router
