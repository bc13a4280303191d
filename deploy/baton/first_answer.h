#pragma once

// The first answer of a new cluster: shows that prompt, hand-over and stream work.

#include <string>
#include <string_view>

namespace baton::cli {

inline constexpr std::string_view kFirstQuestion = "Why is the sky blue?";

// Asks it, with instructions that are long enough to be worth a prefill worker.
std::string first_answer_body(const std::string& model);

// One line to try next.
std::string curl_line(const std::string& url, const std::string& model, bool needs_key);

}  // namespace baton::cli
