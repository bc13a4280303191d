#pragma once

// The metrics that belong to the hand-over (docs/operations.md).

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/metrics/registry.h"

namespace baton::kv_transfer {

// Why a message was not acted upon: late, double, unknown or foreign.
enum class DropReason : uint8_t {
  kBadHeader,       // DATA that is none, or of another version
  kNotRendezvous,   // DATA outside the protocol's own rules
  kUnknownTicket,   // slot or generation unknown, or over
  kForeignSession,  // a ticket of another peer
  kBadRange,        // ranks, layers, heads or tokens that the ticket does not have
  kBadLength,
  kDuplicate,
  kDigest,      // bytes that do not agree with their digest
  kBadMessage,  // a control message that cannot be read
  kUnexpected,  // a control message that means nothing in this state
  kNoSession,   // a control message of a peer without a session
};
std::string_view to_string(DropReason reason);

// Thread-safe.
class TransferMetrics {
 public:
  // All reasons are exported from the start, at 0: an increase() sees no first event of a series
  // that begins with it.
  explicit TransferMetrics(metrics::Registry& registry);

  void sent_bytes(std::string_view transport, uint64_t bytes);
  void received_bytes(std::string_view transport, uint64_t bytes);
  void failed(StatusCode code);
  // From the first byte (or COMMIT, when there was none) to the acknowledgement, and from commit()
  // to the acknowledgement.
  void acked(double seconds, double visible_seconds);
  void lease_expired();
  // A link of a sender could not use a transport that both sides offer. Exported once offered.
  void offer(std::string_view transport);
  void passed_over(std::string_view transport);
  void dropped(DropReason reason);
  void link_up(const std::string& peer, const std::string& transport);
  void link_down(const std::string& peer, const std::string& transport);

 private:
  metrics::Registry& registry_;
};

}  // namespace baton::kv_transfer
