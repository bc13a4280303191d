#pragma once

// The streams of `baton bench faults`: a few clients that ask the same questions again and again,
// and know what each answer must be.

#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "deploy/baton/fault_log.h"

namespace baton::cli {

struct FaultStream {
  std::string id{};  // of the answer
  WallTime sent{};
  WallTime ended{};
  std::vector<WallTime> token_times{};  // of each event with tokens
  std::vector<int64_t> ids{};
  bool complete = false;
  bool wrong = false;   // not the tokens of the run without faults, or not their beginning
  std::string error{};  // of one that is not complete
};

class FaultLoad {
 public:
  // Questions follow from `seed`.
  FaultLoad(std::string url, uint64_t seed);

  // Asks each question once, one after the other: what answers are compared with.
  Status learn();
  void start(int clients);
  // Whether a stream still runs that was begun before `at`.
  bool runs_since(WallTime at);
  // Ends after the streams that run; all of them, in order of their ends.
  std::vector<FaultStream> stop();

 private:
  FaultStream ask(const std::string& body) const;
  void run_client(const std::stop_token& stop, size_t number);

  const std::string url_;
  const uint64_t seed_;
  std::vector<std::string> bodies_;
  std::vector<std::vector<int64_t>> expected_;  // of each body
  Mutex mutex_;
  std::vector<FaultStream> streams_ GUARDED_BY(mutex_);
  std::vector<WallTime> begun_ GUARDED_BY(mutex_);  // by each client's last stream
  std::vector<std::jthread> clients_;
};

}  // namespace baton::cli
