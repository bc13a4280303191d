#pragma once

// From faults, what the cluster logged and what clients saw to the figures of `baton bench faults`.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deploy/baton/fault_load.h"
#include "deploy/baton/fault_log.h"

namespace baton::cli {

// One fault, and when who noticed it.
struct Fault {
  std::string transport{};
  std::string kind{};  // "kill" or "stop"
  std::string worker{};
  WallTime at{};                    // just before the signal was sent
  std::optional<WallTime> ended{};  // a killed process, as the kernel tells this one
  std::optional<WallTime> seen_by_router{};
  int peers = 0;  // that had a link to the worker
  std::vector<WallTime> seen_by_peers{};
  std::optional<WallTime> back{};  // ready again: its next life after a kill
};

// A stream that the router moved to other workers.
struct Move {
  std::string stream;
  WallTime at{};
};

// Everything of one cluster.
struct FaultRun {
  std::vector<Fault> faults;
  std::vector<Move> moves;
  std::vector<FaultStream> streams;
};

struct Times {
  std::vector<double> ms;
  int missed = 0;  // that never came
  void add(WallTime from, WallTime to);
  double percentile(double p) const;  // nearest rank; 0 when empty
};

// Of one kind of fault over one transport.
struct FaultRow {
  Times ended;     // to the end of a killed process: nothing can be seen sooner
  Times router;    // from the signal to the router's "worker gone"
  Times peers;     // to the "link closed" of each peer
  Times recovery;  // to the next token of each moved stream at its client
  Times gap;       // between tokens of those that had begun, over the move
  Times back;      // to the worker's return
};

struct FaultReport {
  uint64_t seed = 0;
  std::map<std::pair<std::string, std::string>, FaultRow> rows;  // by transport and kind
  Times undisturbed;  // between tokens of streams that no fault moved
  int64_t completed = 0;
  int64_t moved = 0;
  int64_t lost = 0;
  int64_t wrong = 0;
  std::string first_error;

  bool good() const;  // nothing lost, wrong or unseen
};

void add_run(FaultReport& report, const FaultRun& run);
std::string faults_json(const FaultReport& report);
std::string faults_table(const FaultReport& report);

}  // namespace baton::cli
