#pragma once

// Inside of engine.h: how far two forward passes over the same weights are apart.

#include <span>

#include "common/base/ids.h"
#include "common/device/compute_team.h"
#include "common/kv_cache/kv_pool.h"
#include "common/model/description.h"
#include "common/model/forward.h"

namespace baton::engine {

// Mean over the positions of `tokens` of the Kullback-Leibler divergence of what `tested` predicts
// from what `reference` predicts, in nats; infinite if a logit is no number. Both use the first
// blocks of the team's pools, which hold nothing else; `pool` is one of them. Steps are short, as
// those of decoding are. At least one token; more than pool or context hold are left out.
double mean_divergence(device::ComputeTeam& team, const kv_cache::KvPool& pool,
                       const model::ModelDescription& description, model::Forward& reference,
                       model::Forward& tested, std::span<const TokenId> tokens);

}  // namespace baton::engine
