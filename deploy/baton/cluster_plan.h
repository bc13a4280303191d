#pragma once

// From the flags of `baton up` and a cluster file to the programs to start.

#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "deploy/baton/supervisor.h"

namespace baton::cli {

struct UpOptions {
  std::string config_path;  // empty: the defaults
  std::string model;
  std::string host;
  std::optional<int> port;
  std::string served_model_name;
  std::optional<int> max_model_len;
  std::string api_key_file;
  std::vector<std::string> overrides;  // of --set, after those of the flags
  std::string log_level;
  std::string log_format;
  std::string ready_file;
  int kill_stuck_after_s = 30;     // 0: never
  int kill_unready_after_s = 900;  // from its start; 0: never
  bool first_answer = false;
  bool once = false;
};

struct ClusterPlan {
  config::Config config;  // with everything below applied
  std::vector<Program> programs;
  std::string url;  // of the router, as a client on this machine reaches it
  bool chose_ports = false;
};

// Reads and checks the file with all overrides and settles the ports: an HTTP port that was asked
// for must be free; port 0 becomes a free one. The control port becomes another free one on the
// same address when HTTP's was 0 or when it is taken, so that clusters side by side do not meet.
// `bin_folder` is where the four programs lie.
Result<ClusterPlan> plan_cluster(const UpOptions& options, const std::string& bin_folder,
                                 Random& random);

// Whether a port that plan_cluster chose has been taken by somebody else since.
bool ports_were_taken(const ClusterPlan& plan);

// The folder of the running program.
Result<std::string> own_folder();

}  // namespace baton::cli
