// What the router tells operators: the state of workers and links, the load of the last half
// minute, the life of one request.

#include <utility>

#include "common/http/error.h"
#include "router/json_text.h"
#include "router/router_loop.h"

namespace baton::router {
namespace {

void answer(const http::Headers& headers, http::Responder& responder, http::Response response) {
  for (const auto& [name, value] : headers) {
    response.headers.set(name, value);
  }
  responder.send(std::move(response));
}

std::string_view role_name(const WorkerState& worker) {
  return worker.info.role == wire::Role::kPrefill ? "prefill" : "decode";
}

void write_worker(JsonText& json, const WorkerState& worker) {
  const wire::Heartbeat& load = worker.load;
  const wire::RecentLoad& recent = load.recent;
  json.open_object().text("name", worker.info.name).text("role", role_name(worker));
  json.text("state", worker.health == WorkerHealth::kReady ? "ready" : "draining");
  json.count("blocks_total", load.blocks_total).count("blocks_free", load.blocks_free);
  if (load.window_blocks_total > 0) {
    json.count("window_blocks_total", load.window_blocks_total);
    json.count("window_blocks_free", load.window_blocks_free);
  }
  json.count("running", load.running).count("waiting", load.waiting);
  json.count("queued_tokens", load.waiting_tokens);
  json.number("prefill_tokens_per_s", recent.prefill_tokens_per_s);
  json.number("prefill_roofline_share", recent.prefill_roofline_share);
  json.number("decode_tokens_per_s", recent.decode_tokens_per_s);
  json.number("decode_roofline_share", recent.decode_roofline_share);
  json.number("batch_mean", recent.batch_mean).number("preemptions", recent.preemptions);
  json.number("prefix_hit_ratio", recent.prefix_hit_ratio);
  json.number("step_ms_p50", recent.step_ms_p50);
  json.text("incarnation", std::to_string(worker.id().value)).count("pid", worker.info.pid);
  json.count("tensor_parallel", worker.info.tensor_parallel);
  json.text("metrics_url", worker.info.http_url + "/metrics").close_object();
}

}  // namespace

void RouterLoop::answer_status(const StatusAsked& asked) {
  JsonText json;
  json.open_object().name("workers").open_array();
  for (const auto& [id, worker] : workers_.all()) {
    write_worker(json, worker);
  }
  json.close_array().name("links").open_array();
  for (const auto& [id, worker] : workers_.all()) {
    if (worker.info.role != wire::Role::kPrefill) {
      continue;  // each pair is told once, by its sender
    }
    for (const wire::LinkInfo& link : worker.load.links) {
      json.open_object().text("from", worker.info.name).text("to", link.peer);
      json.text("transport", link.transport).close_object();
    }
  }
  json.close_array().name("load");
  load_.write(json, clock_.now(), waiting_runs_,
              static_cast<int64_t>(runs_.size()) - waiting_runs_);
  json.close_object();
  answer(asked.headers, *asked.responder, http::json_response(200, json.take()));
}

// Prometheus' HTTP service discovery. The name goes into a meta label, because every series of a
// worker has its own labels already.
void RouterLoop::answer_targets(const TargetsAsked& asked) const {
  constexpr std::string_view kScheme = "http://";
  JsonText json;
  json.open_array();
  for (const auto& [id, worker] : workers_.all()) {
    std::string_view address = worker.info.http_url;
    if (!address.starts_with(kScheme)) {
      continue;
    }
    address.remove_prefix(kScheme.size());
    json.open_object().name("targets").open_array().text(address).close_array();
    json.name("labels").open_object().text("__meta_baton_worker", worker.info.name);
    json.close_object().close_object();
  }
  json.close_array();
  answer(asked.headers, *asked.responder, http::json_response(200, json.take()));
}

void RouterLoop::answer_explain(const ExplainAsked& asked) {
  const TimePoint now = clock_.now();
  const RequestRecord* record = nullptr;
  for (const auto& [id, exchange] : exchanges_) {
    if (has_id(exchange->record(), asked.id)) {
      record = &exchange->record();
    }
  }
  if (record == nullptr) {
    record = history_.find(asked.id);
  }
  if (record != nullptr) {
    answer(asked.headers, *asked.responder, http::json_response(200, explanation(*record, now)));
    return;
  }
  const auto seconds = static_cast<int64_t>(to_seconds(now - history_.oldest(now)));
  const Status unknown = not_found(
      "this router knows no request of that id; it remembers the last " +
      std::to_string(history_.size()) + " that ended, " + std::to_string(seconds) + " s back");
  answer(asked.headers, *asked.responder, http::error_response(unknown, "", "request_not_found"));
}

}  // namespace baton::router
