#include "deploy/baton/fault_log.h"

#include <ctime>

#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

// "2026-01-31T12:00:00.123", local time as the programs write it.
std::optional<WallTime> parse_time(const std::string& text) {
  constexpr size_t kSeconds = 19;
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || text.size() != kSeconds + 4 || *rest != '.') {
    return std::nullopt;
  }
  int millis = 0;
  for (const char c : std::string_view(rest + 1)) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    millis = millis * 10 + (c - '0');
  }
  parts.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(mktime(&parts)) + std::chrono::milliseconds(millis);
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  if (!line.starts_with('{')) {
    return std::nullopt;
  }
  Result<boost::json::object> object = parse_object(line);
  if (!object.ok()) {
    return std::nullopt;
  }
  const std::optional<WallTime> at = parse_time(text_of(*object, "time"));
  if (!at) {
    return std::nullopt;
  }
  return LogLine{*at, text_of(*object, "program"), text_of(*object, "message"),
                 std::move(object).value()};
}

std::vector<LogLine> LogTail::read() {
  std::vector<LogLine> lines;
  file_.clear();  // of the end that the last call saw
  std::string text;
  while (std::getline(file_, text)) {
    part_ += text;
    if (file_.eof()) {
      break;  // without its end yet
    }
    if (std::optional<LogLine> line = parse_log_line(part_)) {
      lines.push_back(std::move(*line));
    }
    last_.push_back(std::move(part_));
    if (last_.size() > kKept) {
      last_.erase(last_.begin());
    }
    part_.clear();
  }
  return lines;
}

std::string LogTail::last_lines() const {
  std::string out;
  for (const std::string& line : last_) {
    out += (out.empty() ? "" : "\n") + line;
  }
  return out;
}

void LinkView::take(const LogLine& line) {
  const std::pair<std::string, std::string> link{text_of(line.fields, "worker"),
                                                 text_of(line.fields, "peer")};
  if (line.message == "link up") {
    up_.insert(link);
  } else if (line.message == "link closed") {
    up_.erase(link);
  }
}

void LinkView::forget(const std::string& worker) {
  std::erase_if(up_, [&worker](const auto& link) { return link.first == worker; });
}

std::set<std::string> LinkView::peers_of(const std::string& worker) const {
  std::set<std::string> peers;
  for (const auto& [who, whom] : up_) {
    if (whom == worker) {
      peers.insert(who);
    }
  }
  return peers;
}

}  // namespace baton::cli
