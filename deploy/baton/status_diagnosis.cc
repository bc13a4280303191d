#include "deploy/baton/status_diagnosis.h"

#include <algorithm>
#include <cstdio>

namespace baton::cli {
namespace {

// A part "dominates" when it is half of the whole.
constexpr double kHalf = 0.5;
// Steps that reach half of the roofline are bound by the machine; below a quarter by something
// else.
constexpr double kLowShare = 0.25;
constexpr double kFewFreeBlocks = 0.1;

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string ms(double value) { return number(value < 10 ? "%.1f ms" : "%.0f ms", value); }
std::string percent(double share) { return number("%.0f %%", share * 100); }

std::string counted(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// "1 request waits", "5 requests (5120 tokens) wait"
std::string waiting(int64_t requests, std::optional<double> tokens = std::nullopt) {
  return counted(requests, "request") + (tokens ? number(" (%.0f tokens)", *tokens) : "") +
         (requests == 1 ? " waits" : " wait");
}

// "a", "a and b", "a, b and c"
std::string listed(const std::vector<std::string>& items) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    out += i == 0 ? "" : i + 1 == items.size() ? " and " : ", ";
    out += items[i];
  }
  return out;
}

std::string conclusion(const std::string& text) { return "  -> " + text; }

std::string load_line(const ClusterLoad& load) {
  std::string line = "last " + number("%.0f s: ", load.window_s) +
                     counted(load.requests, "request") + " (" +
                     number("%.1f/s", load.requests_per_s) + "), " + std::to_string(load.running) +
                     " running, " + std::to_string(load.waiting) + " waiting";
  if (load.decided_remote + load.decided_local > 0) {
    line += "; prompts: " + std::to_string(load.decided_remote) + " on prefill workers, " +
            std::to_string(load.decided_local) + " on decode workers";
  }
  if (load.moved > 0) {
    line += "; " + std::to_string(load.moved) + " moved to another worker";
  }
  if (load.failed > 0) {
    line += "; " + std::to_string(load.failed) + " failed";
  }
  return line;
}

// ---------------------------------------------------------------- slow to start

// ", whose steps reach 78 % of its roofline"
std::string share_clause(const std::optional<double>& share) {
  return share ? ", whose steps reach " + percent(*share) + " of its roofline" : "";
}

std::string more_prefill(const std::optional<double>& share) {
  if (share && *share < kLowShare) {
    return "see whether others use its CPUs before adding a prefill worker";
  }
  return "add a prefill worker, or CPUs to it";
}

std::string why_queue(const ClusterStatus& status) {
  for (const WorkerStatus& worker : status.workers) {
    const double free = static_cast<double>(worker.blocks_free);
    if (worker.role == "decode" && worker.waiting > 0 &&
        free < kFewFreeBlocks * static_cast<double>(worker.blocks_total)) {
      return waiting(worker.waiting) + " for KV blocks of " + worker.name + " (" +
             std::to_string(worker.blocks_free) + " of " + std::to_string(worker.blocks_total) +
             " free): enlarge its kv_cache or add a decode worker";
    }
  }
  const WorkerStatus* longest = nullptr;
  for (const WorkerStatus& worker : status.workers) {
    const bool queues = worker.waiting > 0 || worker.load.queued_tokens.value_or(0) > 0;
    if (worker.role == "prefill" && queues &&
        (longest == nullptr || worker.load.queued_tokens > longest->load.queued_tokens)) {
      longest = &worker;
    }
  }
  if (longest != nullptr) {
    return "prefill workers are the limit: " +
           waiting(longest->waiting, longest->load.queued_tokens) + " for " + longest->name +
           share_clause(longest->load.prefill_roofline_share) + "; " +
           more_prefill(longest->load.prefill_roofline_share);
  }
  if (status.load->waiting > 0) {
    return waiting(status.load->waiting) + " in the router for a worker";
  }
  return "no worker has a queue at this moment: requests came in bursts";
}

std::string why_prefill(const ClusterStatus& status) {
  std::vector<std::string> rates;
  std::optional<double> share;
  for (const WorkerStatus& worker : status.workers) {
    const WorkerLoad& load = worker.load;
    if (!load.prefill_tokens_per_s) {
      continue;
    }
    std::string rate = worker.name + number(" computes %.0f tokens/s", *load.prefill_tokens_per_s);
    if (load.prefill_roofline_share) {
      rate += " (" + percent(*load.prefill_roofline_share) + " of its roofline)";
      share = std::max(share.value_or(0), *load.prefill_roofline_share);
    }
    if (load.prefix_hit_ratio.value_or(0) > 0) {
      rate += ", prefix cache hits " + percent(*load.prefix_hit_ratio);
    }
    rates.push_back(rate);
  }
  std::string line = "computing prompts is the limit";
  if (!rates.empty()) {
    line += ": " + listed(rates);
  }
  if (share && *share >= kHalf) {
    line += "; only shorter prompts, common prefixes or more CPUs make it faster";
  } else if (share && *share < kLowShare) {
    line += "; far from the machine's limit: short prompts, or CPUs that others use";
  }
  return line;
}

std::string why_transfer(const ClusterStatus& status) {
  std::vector<std::string> lanes;
  for (const LinkStatus& link : status.links) {
    lanes.push_back(link.from + " -> " + link.to + " over " + link.transport);
  }
  return "the hand-over is the limit: it is not hidden behind the computation" +
         (lanes.empty() ? "" : " (" + listed(lanes) + ")");
}

void add_starting(const ClusterStatus& status, std::vector<std::string>& lines) {
  const ClusterLoad& load = *status.load;
  if (!load.ttft_ms.p50) {
    return;
  }
  std::string line = "starting: first token after " + ms(*load.ttft_ms.p50) + " p50";
  if (load.ttft_ms.p99) {
    line += ", " + ms(*load.ttft_ms.p99) + " p99";
  }
  struct Part {
    const char* name;
    double value;
    std::string (*why)(const ClusterStatus&);
  };
  const Part parts[] = {{"queue", load.queue_ms.p50.value_or(0), why_queue},
                        {"prefill", load.prefill_ms.p50.value_or(0), why_prefill},
                        {"transfer", load.transfer_visible_ms.p50.value_or(0), why_transfer}};
  const double sum = parts[0].value + parts[1].value + parts[2].value;
  if (sum <= 0) {
    lines.push_back(line);
    return;
  }
  std::string separator = "; p50 of its parts: ";
  const Part* largest = &parts[0];
  for (const Part& part : parts) {
    line += separator + part.name + " " + ms(part.value) + " (" + percent(part.value / sum) + ")";
    separator = " + ";
    largest = part.value > largest->value ? &part : largest;
  }
  lines.push_back(line);
  // Medians need not add up, but half of the time missing is no accident.
  if (sum < kHalf * *load.ttft_ms.p50) {
    lines.push_back(conclusion("most of it is in none of these parts: the router, or retries"));
  } else if (largest->value >= kHalf * sum) {
    lines.push_back(conclusion(largest->why(status)));
  } else {
    lines.push_back(conclusion("no part dominates"));
  }
}

// ---------------------------------------------------------------- slow to stream

std::string why_worker_streams_so(const WorkerStatus& worker) {
  const WorkerLoad& load = worker.load;
  std::string line = worker.name + " runs";
  line += load.batch_mean ? number(" %.1f sequences a step", *load.batch_mean) : "";
  line += load.step_ms_p50 ? " of " + ms(*load.step_ms_p50) : "";
  line += load.decode_tokens_per_s ? number(", %.0f tokens/s", *load.decode_tokens_per_s) : "";
  line += load.decode_roofline_share
              ? " at " + percent(*load.decode_roofline_share) + " of its roofline"
              : "";
  if (load.preemptions.value_or(0) > 0) {
    line += "; " + counted(static_cast<int64_t>(*load.preemptions), "preemption") +
            ": its KV pool is too small for what runs (" + std::to_string(worker.blocks_free) +
            " of " + std::to_string(worker.blocks_total) + " blocks free), enlarge kv_cache";
  } else if (load.decode_roofline_share && *load.decode_roofline_share >= kHalf) {
    line +=
        "; steps are near the machine's limit: another decode worker with CPUs and memory of its "
        "own shortens them";
  } else if (load.decode_roofline_share && *load.decode_roofline_share < kLowShare) {
    line += "; far from the machine's limit: few sequences, or CPUs that others use";
  }
  return line;
}

void add_streaming(const ClusterStatus& status, std::vector<std::string>& lines) {
  const ClusterLoad& load = *status.load;
  if (!load.tpot_ms.p50) {
    return;
  }
  std::string line = "streaming: " + ms(*load.tpot_ms.p50) + " a token p50";
  if (load.tpot_ms.p99) {
    line += ", " + ms(*load.tpot_ms.p99) + " p99";
  }
  if (load.second_token_gap_ms.p50) {
    line += "; the second token " + ms(*load.second_token_gap_ms.p50) + " after the first";
  }
  lines.push_back(line);
  double slowest_step = 0;
  for (const WorkerStatus& worker : status.workers) {
    // A prefill worker has a batch too, but no stream waits for its steps.
    if (worker.load.decode_tokens_per_s || (worker.role == "decode" && worker.load.batch_mean)) {
      lines.push_back(conclusion(why_worker_streams_so(worker)));
      slowest_step = std::max(slowest_step, worker.load.step_ms_p50.value_or(0));
    }
  }
  if (slowest_step > 0 && *load.tpot_ms.p50 > 1.5 * slowest_step) {
    lines.push_back(conclusion("tokens come slower than steps (" + ms(*load.tpot_ms.p50) +
                               " against " + ms(slowest_step) + "): sequences sit out steps"));
  }
  constexpr double kLateSecond = 3;
  if (load.second_token_gap_ms.p50 &&
      *load.second_token_gap_ms.p50 > kLateSecond * *load.tpot_ms.p50) {
    lines.push_back(
        conclusion("the second token is late: hand-over or admission on the decode "
                   "worker holds it up"));
  }
}

}  // namespace

std::vector<std::string> diagnose(const ClusterStatus& status) {
  if (!status.load) {
    return {};
  }
  const ClusterLoad& load = *status.load;
  if (load.requests == 0 && load.running == 0 && load.waiting == 0) {
    return {"idle: no request in the last " + number("%.0f s", load.window_s)};
  }
  std::vector<std::string> lines = {load_line(load)};
  if (load.requests < kFewestRequests) {
    lines.push_back(conclusion("too few requests to say more"));
    return lines;
  }
  add_starting(status, lines);
  add_streaming(status, lines);
  return lines;
}

}  // namespace baton::cli
