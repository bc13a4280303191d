#pragma once

// The HTTP paths of the router. Runs on HTTP threads: reads and checks requests, renders templates,
// tokenises, and hands completions to the router loop. Immutable after construction, so any number
// of threads may use it. docs/api.md lists paths and fields.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/config/config.h"
#include "common/http/server.h"
#include "common/metrics/registry.h"
#include "router/api/chat_prompt.h"
#include "router/api_keys.h"
#include "router/router_loop.h"

namespace baton::router {

class Endpoint {
 public:
  struct Options {
    const config::Router* config = nullptr;
    ApiKeys* api_keys = nullptr;  // outlives the endpoint
    ServedModel model;
    int64_t started_unix = 0;
  };
  // All references outlive the endpoint.
  Endpoint(Options options, const ChatPrompt& chat, RouterLoop& loop, metrics::Registry& registry,
           const Clock& clock, Random& random);

  // What every answer to this request carries: its id, CORS.
  http::Headers answer_headers(const http::Request& request) const;
  void handle(http::Request request, const std::shared_ptr<http::Responder>& responder) const;

 private:
  using Answer = http::Response;
  // None: the request has no key that is known.
  std::optional<KeyRights> rights(const http::Request& request) const;
  bool origin_accepted(const http::Request& request) const;
  bool content_type_accepted(const http::Request& request) const;
  Answer probe(const std::string& path) const;
  Answer models(const std::string& path) const;
  void complete(const http::Request& request, KeyRights rights, http::Headers headers,
                const std::shared_ptr<http::Responder>& responder) const;
  void count_error(StatusCode code) const;
  ApiFault read_request(const http::Request& request, ApiRequest& out) const;
  ApiFault fit_context(ApiRequest& request) const;

  Options options_;
  const ChatPrompt& chat_;
  RouterLoop& loop_;
  metrics::Registry& registry_;
  const Clock& clock_;
  Random& random_;
};

}  // namespace baton::router
