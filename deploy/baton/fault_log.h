#pragma once

// What the programs of a cluster log in JSON, read while they write it: when who noticed what, by
// the one wall clock of the machine, to the millisecond that lines are stamped with.

#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>

namespace baton::cli {

using WallTime = std::chrono::system_clock::time_point;

struct LogLine {
  WallTime at{};
  std::string program;
  std::string message;
  // A field named as one of the line itself (the router's "worker") is the one that is here.
  boost::json::object fields;
};

// Nothing for what is no such line.
std::optional<LogLine> parse_log_line(std::string_view line);

// The lines of a file that grows.
class LogTail {
 public:
  explicit LogTail(const std::string& path) : file_(path) {}
  // What is complete since the last call.
  std::vector<LogLine> read();
  // The last lines that were read, as they stand in the file: for messages.
  std::string last_lines() const;

 private:
  static constexpr size_t kKept = 5;
  std::ifstream file_;
  std::string part_;
  std::vector<std::string> last_;
};

// The links between workers that are up, as both ends tell it.
class LinkView {
 public:
  void take(const LogLine& line);
  // A process that dies tells nothing.
  void forget(const std::string& worker);
  // Workers with a link to `worker` up at their end.
  std::set<std::string> peers_of(const std::string& worker) const;

 private:
  std::set<std::pair<std::string, std::string>> up_;  // {who, to whom}
};

}  // namespace baton::cli
