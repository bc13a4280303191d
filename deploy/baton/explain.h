#pragma once

// `baton explain REQUEST_ID`: the life of one request, as the router remembers it: decision,
// predicted and measured parts, time line.

#include <string>

#include "common/base/status.h"

namespace baton::cli {

struct ExplainOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  std::string cacert;      // whom an https:// server is trusted by; empty: the system's authorities
  std::string request_id;  // x-request-id, or the id of the answer
  bool json = false;
};

// For a terminal of 80 columns. internal_error for what is not the router's answer.
Result<std::string> explain_text(const std::string& json);

// The exit status of the program.
int run_explain(const ExplainOptions& options);

}  // namespace baton::cli
