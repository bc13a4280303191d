#pragma once

// `baton status`: what a router knows of its workers and their links.

#include <string>

#include "deploy/baton/router_client.h"

namespace baton::cli {

struct StatusOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  bool json = false;
};

std::string status_table(const ClusterStatus& status);

// The exit status of the program.
int run_status(const StatusOptions& options);

}  // namespace baton::cli
