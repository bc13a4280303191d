#include "kv_transfer/transfer_metrics.h"

#include <algorithm>
#include <array>

namespace baton::kv_transfer {

using metrics::MetricId;

std::string_view to_string(DropReason reason) {
  constexpr std::array<std::string_view, 11> kNames = {
      "bad_header",  "not_rendezvous", "unknown_ticket", "foreign_session",
      "bad_range",   "bad_length",     "duplicate",      "digest",
      "bad_message", "unexpected",     "no_session"};
  return kNames[static_cast<size_t>(reason)];
}

TransferMetrics::TransferMetrics(metrics::Registry& registry) : registry_(registry) {
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    const std::string_view label = status_code_info(static_cast<StatusCode>(code)).label;
    registry_.counter(MetricId::kKvTransferFailures, {label});
  }
  for (int reason = 0; reason <= static_cast<int>(DropReason::kNoSession); ++reason) {
    registry_.counter(MetricId::kKvMessagesDropped, {to_string(static_cast<DropReason>(reason))});
  }
}

void TransferMetrics::sent_bytes(std::string_view transport, uint64_t bytes) {
  registry_.counter(MetricId::kKvTransferBytes, {"sent", transport})
      .add(static_cast<double>(bytes));
}
void TransferMetrics::received_bytes(std::string_view transport, uint64_t bytes) {
  registry_.counter(MetricId::kKvTransferBytes, {"received", transport})
      .add(static_cast<double>(bytes));
}
void TransferMetrics::failed(StatusCode code) {
  registry_.counter(MetricId::kKvTransferFailures, {status_code_info(code).label}).add();
}
void TransferMetrics::acked(double seconds, double visible_seconds) {
  registry_.histogram(MetricId::kKvTransferSeconds).observe(seconds);
  if (seconds > 0) {
    const double hidden = 1 - visible_seconds / seconds;
    registry_.histogram(MetricId::kKvTransferHiddenRatio).observe(std::clamp(hidden, 0.0, 1.0));
  }
}
void TransferMetrics::lease_expired() { registry_.counter(MetricId::kKvLeaseExpired).add(); }
void TransferMetrics::offer(std::string_view transport) {
  registry_.counter(MetricId::kKvTransportsPassedOver, {transport});
}
void TransferMetrics::passed_over(std::string_view transport) {
  registry_.counter(MetricId::kKvTransportsPassedOver, {transport}).add();
}
void TransferMetrics::dropped(DropReason reason) {
  registry_.counter(MetricId::kKvMessagesDropped, {to_string(reason)}).add();
}
void TransferMetrics::link_up(const std::string& peer, const std::string& transport) {
  registry_.set_info(MetricId::kLinkTransportInfo, {peer, transport});
}
void TransferMetrics::link_down(const std::string& peer, const std::string& transport) {
  registry_.remove(MetricId::kLinkTransportInfo, {peer, transport});
}

}  // namespace baton::kv_transfer
