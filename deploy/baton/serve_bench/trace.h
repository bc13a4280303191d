#pragma once

// Reads traces of arrivals, plain or .xz:
//   Azure LLM inference  TIMESTAMP,ContextTokens,GeneratedTokens with rows like
//                        2023-11-16 18:17:03.9799600,4808,10
//   Mooncake             {"timestamp": ms, "input_length": n, "output_length": n,
//                        "hash_ids": [one id per 512-token prefix block]} a line; hash_ids optional

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "deploy/baton/serve_bench/plan.h"

namespace baton::serve_bench {

// In order of time, the first at offset zero. kNotFound when the file cannot be read;
// kInvalidArgument names file, line and what would be right.
Result<std::vector<PlannedRequest>> read_trace(const std::string& path);

// `name` is for messages.
Result<std::vector<PlannedRequest>> parse_trace(std::string_view text, const std::string& name);

}  // namespace baton::serve_bench
