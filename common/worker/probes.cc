#include "common/worker/probes.h"

#include "common/http/error.h"

namespace baton::worker {
namespace {

bool older_than(const std::atomic<int64_t>& ns, TimePoint now, Duration limit) {
  return now.time_since_epoch().count() - ns.load() > limit.count();
}

http::Response plain(int status, const std::string& body) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = body + "\n";
  return response;
}

http::Response answer(const std::string& reason) {
  return reason.empty() ? plain(200, "ok") : plain(503, reason);
}

}  // namespace

std::string not_live_reason(const LoopHealth& health, TimePoint now, const ProbeLimits& limits) {
  if (older_than(health.last_turn_ns, now, limits.loop_stuck)) {
    return "the worker loop does not turn";
  }
  if (health.step_running && older_than(health.compute_moved_ns, now, limits.step_stuck)) {
    return "an engine step makes no progress";
  }
  if (older_than(health.transfer_turn_ns, now, limits.transfer_stuck)) {
    return "the transfer thread does not turn";
  }
  return {};
}

std::string not_ready_reason(const LoopHealth& health, TimePoint now, const ProbeLimits& limits) {
  if (std::string reason = not_live_reason(health, now, limits); !reason.empty()) {
    return reason;
  }
  if (health.draining) {
    return "draining";
  }
  return health.registered ? std::string() : "not registered with a router";
}

Result<std::unique_ptr<http::Server>> serve_probes(const std::string& address,
                                                   const LoopHealth& health, const Clock& clock,
                                                   const metrics::Registry& registry,
                                                   const ProbeLimits& limits) {
  http::ServerOptions options;
  options.name = "probes";
  options.max_body_bytes = 64 * 1024;
  options.max_connections = 256;
  options.address_hint = "the worker's http key";
  return http::Server::start(
      address, options,
      [&health, &clock, &registry, limits](http::Request request,
                                           std::shared_ptr<http::Responder> responder) {
        if (request.method != "GET" && request.method != "HEAD") {
          http::Response refused = plain(405, "only GET and HEAD");
          refused.headers.add("Allow", "GET, HEAD");
          responder->send(std::move(refused));
        } else if (request.path == "/livez") {
          responder->send(answer(not_live_reason(health, clock.now(), limits)));
        } else if (request.path == "/readyz") {
          responder->send(answer(not_ready_reason(health, clock.now(), limits)));
        } else if (request.path == "/metrics") {
          http::Response response;
          response.headers.add("Content-Type", std::string(metrics::Registry::kContentType));
          response.body = registry.serialize();
          responder->send(std::move(response));
        } else {
          responder->send(plain(404, "not found; there are /livez, /readyz and /metrics"));
        }
      });
}

}  // namespace baton::worker
