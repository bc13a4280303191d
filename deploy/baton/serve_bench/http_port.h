#pragma once

// CompletionPort over HTTP/1.1 and server-sent events.

#include <list>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/async_client.h"
#include "deploy/baton/serve_bench/completion_port.h"

namespace baton::serve_bench {

class StreamedAnswer;

class HttpPort final : public CompletionPort {
 public:
  // Paths of calls come behind the path of `url`. `api_key` may be empty.
  static Result<std::unique_ptr<HttpPort>> create(const std::string& url, std::string api_key,
                                                  int max_connections, const Clock& clock,
                                                  http::TlsTrust trust = {});
  ~HttpPort() override;

  TimePoint now() const override { return clock_.now(); }
  void start(CompletionCall call, AnswerObserver& observer) override;
  void cancel_all() override;
  void run_until(TimePoint until) override;
  void interrupt() override { client_->interrupt(); }

 private:
  HttpPort(std::unique_ptr<http::AsyncClient> client, std::string api_key, const Clock& clock);

  const Clock& clock_;
  const std::string api_key_;
  std::list<std::unique_ptr<StreamedAnswer>> answers_;
  std::list<std::unique_ptr<StreamedAnswer>> over_;  // freed outside of their own calls
  std::unique_ptr<http::AsyncClient> client_;        // last: its destruction uses no answer
};

}  // namespace baton::serve_bench
