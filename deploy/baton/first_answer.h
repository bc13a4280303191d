#pragma once

// The first answer of a new cluster: shows that prompt, hand-over and stream work.

#include <string>

namespace baton::cli {

// A fixed greeting whose instructions are long enough to be worth a prefill worker.
std::string first_answer_body(const std::string& model);

// One line to try next.
std::string curl_line(const std::string& url, const std::string& model, bool needs_key);

}  // namespace baton::cli
