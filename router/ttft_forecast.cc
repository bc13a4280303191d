#include "router/ttft_forecast.h"

#include <algorithm>

namespace baton::router {

void TtftForecast::observe(double predicted_ms, double measured_ms, double least_ms) {
  if (predicted_ms > 0 && predicted_ms >= least_ms) {
    factor_ *= measured_ms > at_most_ms(predicted_ms) ? kUp : kDown;
    factor_ = std::clamp(factor_, kLeast, kMost);
  }
}

}  // namespace baton::router
