#pragma once

// `baton status`: what a router knows of its workers and their links.

#include <optional>
#include <string>

namespace baton::cli {

struct StatusOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  std::string cacert;  // whom an https:// server is trusted by; empty: the system's authorities
  bool json = false;
  std::optional<double> watch_s;  // ask again after so long
};

// The exit status of the program. Ctrl-C ends a watch with 0.
int run_status(const StatusOptions& options);

}  // namespace baton::cli
