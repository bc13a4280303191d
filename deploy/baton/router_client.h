#pragma once

// What `baton` asks of a running router.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/client.h"
#include "deploy/baton/status_data.h"

namespace baton::cli {

// How a request went through the cluster: the router's answer to `baton_trace`.
struct RequestPath {
  std::string prefill;
  std::string decode;
  std::string transport;
  double prefill_ms = 0;
  double transfer_ms = 0;
  double transfer_visible_ms = 0;
  double ttft_ms = 0;
  int64_t prompt_tokens_computed = 0;
  int64_t prompt_tokens_cached = 0;
  int64_t transfer_bytes = 0;
};
// "prefill p0 (412 tokens, 31 ms) -> 9.1 MB over ucx-posix (3 ms, 92 % hidden) -> decode d0"
std::string path_line(const RequestPath& path);

// What a server of the OpenAI API says is wrong.
struct ServerError {
  std::string message;
  std::string type;
  std::string code;  // "context_length_exceeded", ...
};
// Whether prompt and answer do not fit the model's context, in the words of the common servers.
bool is_context_overflow(const ServerError& error);

// The text of a streamed answer, piece by piece.
class AnswerReader {
 public:
  // `on_text` gets what the model said, as it comes.
  explicit AnswerReader(std::function<void(std::string_view)> on_text)
      : on_text_(std::move(on_text)) {}
  // Bytes of a text/event-stream. False once it is over or wrong.
  bool feed(std::string_view bytes);
  // Of the stream as a whole: an error event, text that is no event, an end before "[DONE]".
  Status status() const;
  // Set when an error event came.
  const std::optional<ServerError>& error() const { return server_error_; }
  const std::optional<RequestPath>& path() const { return path_; }
  // "stop", "length"; empty until the server says it.
  const std::string& finish_reason() const { return finish_reason_; }
  // As the server counts them, when it does.
  std::optional<int64_t> completion_tokens() const { return completion_tokens_; }

 private:
  bool take_line(std::string_view line);

  static constexpr size_t kMaxLine = 1 << 20;
  std::function<void(std::string_view)> on_text_;
  std::string line_;
  bool done_ = false;
  Status error_;
  std::optional<ServerError> server_error_;
  std::optional<RequestPath> path_;
  std::string finish_reason_;
  std::optional<int64_t> completion_tokens_;
};

// How a streamed answer ended.
struct Answer {
  Status status;  // kCancelled: interrupted; else why it is not complete
  bool context_overflow = false;
  std::optional<RequestPath> path;  // of Baton, when it was asked for
  std::string finish_reason;
  std::optional<int64_t> completion_tokens;
};

struct ServedModel {
  std::string id;
  int64_t max_context = 0;  // 0: the server does not tell
};

// A server as its user names it.
struct ServerAccess {
  std::string url;
  std::string api_key;  // may be empty
  http::TlsTrust trust{};
};
// What `--cacert FILE` says; empty without it.
http::TlsTrust trust_in(const std::string& cacert);

// One thread at a time, but for cancel().
class RouterClient {
 public:
  // `interrupt_fd`: see http::ClientOptions.
  RouterClient(ServerAccess server, Duration timeout, int interrupt_fd = -1);

  bool ready();  // GET /readyz says 200
  Result<ClusterStatus> status();
  // The body of an answer 200; what the router says of another one is the message of the error.
  Result<std::string> get(const std::string& path);
  // A streamed chat answer at temperature 0. Errors of the API come with its own message.
  Result<RequestPath> chat(const std::string& body,
                           const std::function<void(std::string_view)>& on_text);
  // The same from any server of the OpenAI API, told in full.
  Answer stream_answer(const std::string& body,
                       const std::function<void(std::string_view)>& on_text);
  Result<std::vector<ServedModel>> models();  // GET /v1/models
  void cancel() { client_.cancel(); }

 private:
  http::ClientRequest request(std::string method, const std::string& path) const;

  std::string url_;
  std::string api_key_;
  http::Client client_;
};

// The first key of a file that holds one a line; '#' begins a comment line. No path is no key:
// empty.
Result<std::string> first_api_key(const std::string& path);

}  // namespace baton::cli
