#pragma once

// Conversion of the parts that several messages share, between the plain structs and Protobuf.
// Internal to common/wire. `get` returns false for values outside their range.

#include "baton.pb.h"
#include "common/wire/messages.h"

namespace baton::wire {

void put(const U128& from, pb::U128* to);
void put(const RunKey& from, pb::RunKey* to);
void put(const SamplingSpec& from, pb::Sampling* to);
void put(const TokenLogprob& from, pb::TokenLogprob* to);
void put(const RunBody& from, pb::RunBody* to);
void put(const RunTimings& from, pb::RunTimings* to);
void put(const WorkerInfo& from, pb::WorkerInfo* to);
void put(const Hello& from, pb::Hello* to);
void put(const Heartbeat& from, pb::Heartbeat* to);

U128 get(const pb::U128& from);
bool get(const pb::RunKey& from, RunKey* to);
void get(const pb::Sampling& from, SamplingSpec* to);
void get(const pb::TokenLogprob& from, TokenLogprob* to);
bool get(const pb::RunBody& from, RunBody* to);
void get(const pb::RunTimings& from, RunTimings* to);
bool get(const pb::WorkerInfo& from, WorkerInfo* to);
bool get(const pb::Hello& from, Hello* to);
void get(const pb::Heartbeat& from, Heartbeat* to);
bool get_finish(uint32_t from, FinishReason* to);

template <typename Repeated>
std::vector<TokenId> get_tokens(const Repeated& from) {
  return {from.begin(), from.end()};
}
template <typename Repeated>
void put_tokens(const std::vector<TokenId>& from, Repeated* to) {
  to->Add(from.begin(), from.end());
}

}  // namespace baton::wire
