#pragma once

// `baton chat`: a conversation with any server of the OpenAI API.

#include <cstdint>
#include <optional>
#include <string>

namespace baton::cli {

struct ChatOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  std::string cacert;  // whom an https:// server is trusted by; empty: the system's authorities
  std::string system;
  std::string model;  // empty: the first that the server lists
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<int64_t> seed;
};

// On stdin and stdout: with line editing and times when both are a terminal, else answers only.
// The exit status of the program.
int run_chat(const ChatOptions& options);

}  // namespace baton::cli
