#include "deploy/baton/serve_bench/http_port.h"

#include <utility>

#include "deploy/baton/serve_bench/streamed_answer.h"

namespace baton::serve_bench {

Result<std::unique_ptr<HttpPort>> HttpPort::create(const std::string& url, std::string api_key,
                                                   int max_connections, const Clock& clock,
                                                   http::TlsTrust trust) {
  http::AsyncClientOptions options;
  options.max_exchanges = static_cast<size_t>(max_connections);
  options.trust = std::move(trust);
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<http::AsyncClient> client,
                         http::AsyncClient::create(url, options, clock));
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(client), std::move(api_key), clock));
}

HttpPort::HttpPort(std::unique_ptr<http::AsyncClient> client, std::string api_key,
                   const Clock& clock)
    : clock_(clock), api_key_(std::move(api_key)), client_(std::move(client)) {}

HttpPort::~HttpPort() = default;

void HttpPort::start(CompletionCall call, AnswerObserver& observer) {
  http::ClientRequest request;
  request.method = "POST";
  request.url = call.path;
  request.headers.add("Content-Type", "application/json");
  if (!api_key_.empty()) {
    request.headers.add("Authorization", "Bearer " + api_key_);
  }
  request.body = std::move(call.body);
  const auto place = answers_.emplace(answers_.end());
  *place = std::make_unique<StreamedAnswer>(
      observer, [this, place] { over_.splice(over_.end(), answers_, place); });
  const auto started = client_->start(request, call.timeout, **place);
  if (!started.ok()) {
    answers_.erase(place);
    observer.on_end({.outcome = Outcome::kConnectionLimit,
                     .message = started.status().message(),
                     .at = clock_.now()});
  }
}

void HttpPort::cancel_all() { client_->cancel_all(); }

void HttpPort::run_until(TimePoint until) {
  over_.clear();
  client_->run_for(until - clock_.now());
}

}  // namespace baton::serve_bench
