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

namespace baton::cli {

struct WorkerStatus {
  std::string name;
  std::string role;
  std::string state;
  std::string incarnation;
  std::string metrics_url;
  int64_t pid = 0;
  int64_t blocks_total = 0;
  int64_t blocks_free = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t tensor_parallel = 1;
};
struct LinkStatus {
  std::string from;
  std::string to;
  std::string transport;
};
struct ClusterStatus {
  std::vector<WorkerStatus> workers;  // by role, then name
  std::vector<LinkStatus> links;
  std::string json;  // as the router sent it
};
Result<ClusterStatus> parse_status(const std::string& json);

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
  const std::optional<RequestPath>& path() const { return path_; }

 private:
  bool take_line(std::string_view line);

  static constexpr size_t kMaxLine = 1 << 20;
  std::function<void(std::string_view)> on_text_;
  std::string line_;
  bool done_ = false;
  Status error_;
  std::optional<RequestPath> path_;
};

// One thread at a time, but for cancel().
class RouterClient {
 public:
  // `api_key` may be empty.
  RouterClient(std::string url, std::string api_key, Duration timeout);

  bool ready();  // GET /readyz says 200
  Result<ClusterStatus> status();
  // A streamed chat answer at temperature 0. Errors of the API come with its own message.
  Result<RequestPath> chat(const std::string& body,
                           const std::function<void(std::string_view)>& on_text);
  void cancel() { client_.cancel(); }

 private:
  http::ClientRequest request(std::string method, const std::string& path) const;

  std::string url_;
  std::string api_key_;
  http::Client client_;
};

// The first key of a file that holds one a line; '#' begins a comment line.
Result<std::string> first_api_key(const std::string& path);

}  // namespace baton::cli
