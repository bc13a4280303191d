#pragma once

// HELLO: what two agents must agree on before a byte moves. Both sides run agree() on both HELLOs
// and so come to the same answer; what differs is refused with both values in the reason.

#include <optional>
#include <string>
#include <vector>

#include "common/base/host_identity.h"
#include "common/wire/messages.h"
#include "kv_transfer/data_path.h"
#include "kv_transfer/piece_plan.h"
#include "kv_transfer/transfer.h"

namespace baton::kv_transfer {

// Our own HELLO: `paths` are those that are open, best first.
wire::Hello make_hello(const AgentOptions& options, const HostIdentity& host,
                       std::span<DataPath* const> paths);

// A transport that both offer and that cannot be used between them.
struct PassedOver {
  std::string transport;
  std::string why;
};
std::string describe(std::span<const PassedOver> passed_over);  // "a: why; b: why"

struct Agreement {
  std::string transport;
  std::vector<PassedOver> passed_over;  // better ones
  PiecePlan plan;
  bool digest = true;  // on when either side wants it
};
// `sender` and `receiver` by the direction of the data. incompatible with the reason.
Result<Agreement> agree(const wire::Hello& sender, const wire::Hello& receiver);

HostIdentity host_of(const wire::Hello& hello);
// The address of one transport out of Hello::worker_address; nothing when it is not there or the
// bytes make no sense.
std::optional<std::string> path_address(const wire::Hello& hello, std::string_view transport);

}  // namespace baton::kv_transfer
