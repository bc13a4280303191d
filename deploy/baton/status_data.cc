#include "deploy/baton/status_data.h"

#include <algorithm>
#include <tuple>

#include <boost/json/value.hpp>

#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

WorkerLoad worker_load_of(const json::object& worker) {
  return {.prefill_tokens_per_s = optional_number_of(worker, "prefill_tokens_per_s"),
          .prefill_roofline_share = optional_number_of(worker, "prefill_roofline_share"),
          .decode_tokens_per_s = optional_number_of(worker, "decode_tokens_per_s"),
          .decode_roofline_share = optional_number_of(worker, "decode_roofline_share"),
          .batch_mean = optional_number_of(worker, "batch_mean"),
          .preemptions = optional_number_of(worker, "preemptions"),
          .prefix_hit_ratio = optional_number_of(worker, "prefix_hit_ratio"),
          .step_ms_p50 = optional_number_of(worker, "step_ms_p50"),
          .queued_tokens = optional_number_of(worker, "queued_tokens")};
}

// Of a model that has layers with and without a window, the blocks of which fewer are left.
void take_scarcer_blocks(const json::object& worker, WorkerStatus& status) {
  const int64_t total = integer_of(worker, "window_blocks_total");
  const int64_t free = integer_of(worker, "window_blocks_free");
  const auto share = [](int64_t left, int64_t all) {
    return all > 0 ? static_cast<double>(left) / static_cast<double>(all) : 1.0;
  };
  if (total > 0 && share(free, total) <= share(status.blocks_free, status.blocks_total)) {
    status.blocks_total = total;
    status.blocks_free = free;
  }
}

WorkerStatus worker_of(const json::object& worker) {
  WorkerStatus status = {.name = text_of(worker, "name"),
                         .role = text_of(worker, "role"),
                         .state = text_of(worker, "state"),
                         .incarnation = text_of(worker, "incarnation"),
                         .metrics_url = text_of(worker, "metrics_url"),
                         .pid = integer_of(worker, "pid"),
                         .blocks_total = integer_of(worker, "blocks_total"),
                         .blocks_free = integer_of(worker, "blocks_free"),
                         .running = integer_of(worker, "running"),
                         .waiting = integer_of(worker, "waiting"),
                         .tensor_parallel = integer_of(worker, "tensor_parallel"),
                         .load = worker_load_of(worker)};
  take_scarcer_blocks(worker, status);
  return status;
}

Percentiles percentiles_of(const json::object& load, std::string_view key) {
  const json::object* values = object_of(load, key);
  if (values == nullptr) {
    return {};
  }
  return {.p50 = optional_number_of(*values, "p50"),
          .p90 = optional_number_of(*values, "p90"),
          .p99 = optional_number_of(*values, "p99")};
}

ClusterLoad load_of(const json::object& load) {
  const json::object none;
  const json::object* decisions = object_of(load, "decisions");
  const json::object& decided = decisions != nullptr ? *decisions : none;
  return {.window_s = number_of(load, "window_s"),
          .requests = integer_of(load, "requests"),
          .requests_per_s = number_of(load, "rps"),
          .ttft_ms = percentiles_of(load, "ttft_ms"),
          .tpot_ms = percentiles_of(load, "tpot_ms"),
          .queue_ms = percentiles_of(load, "queue_ms"),
          .prefill_ms = percentiles_of(load, "prefill_ms"),
          .transfer_visible_ms = percentiles_of(load, "transfer_visible_ms"),
          .second_token_gap_ms = percentiles_of(load, "second_token_gap_ms"),
          .waiting = integer_of(load, "waiting"),
          .running = integer_of(load, "running"),
          .decided_remote = integer_of(decided, "remote"),
          .decided_local = integer_of(decided, "local"),
          .moved = integer_of(load, "moved"),
          .failed = integer_of(load, "failed")};
}

// The objects of a list; kInternal when it holds anything else.
Result<std::vector<const json::object*>> objects_of(const json::object& object,
                                                    std::string_view key) {
  std::vector<const json::object*> out;
  if (const json::array* list = array_of(object, key)) {
    for (const json::value& item : *list) {
      if (!item.is_object()) {
        return internal_error("the router's status has something in \"" + std::string(key) +
                              "\" that is no object");
      }
      out.push_back(&item.get_object());
    }
  }
  return out;
}

}  // namespace

Result<ClusterStatus> parse_status(const std::string& text) {
  BATON_ASSIGN_OR_RETURN(const json::object object, parse_object(text));
  ClusterStatus status;
  status.json = text;
  BATON_ASSIGN_OR_RETURN(const auto workers, objects_of(object, "workers"));
  for (const json::object* worker : workers) {
    status.workers.push_back(worker_of(*worker));
  }
  // "prefill" before "decode": the way of a request.
  std::ranges::sort(status.workers, [](const WorkerStatus& a, const WorkerStatus& b) {
    return std::tie(b.role, a.name) < std::tie(a.role, b.name);
  });
  BATON_ASSIGN_OR_RETURN(const auto links, objects_of(object, "links"));
  for (const json::object* link : links) {
    status.links.push_back(
        {text_of(*link, "from"), text_of(*link, "to"), text_of(*link, "transport")});
  }
  std::ranges::sort(status.links, [](const LinkStatus& a, const LinkStatus& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  if (const json::object* load = object_of(object, "load")) {
    status.load = load_of(*load);
  }
  return status;
}

}  // namespace baton::cli
