#include "common/http/event_stream.h"

namespace baton::http {

bool EventStreamReader::overflows(size_t more) {
  if (line_.size() + data_.size() + more <= kMaxEventBytes) {
    return false;
  }
  status_ = resource_exhausted("an event of the stream is larger than " +
                               std::to_string(kMaxEventBytes >> 20) + " MiB");
  stopped_ = true;
  return true;
}

bool EventStreamReader::feed(std::string_view bytes) {
  while (!bytes.empty() && !stopped_) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (overflows(part.size())) {
      break;
    }
    if (end == std::string_view::npos) {
      line_ += part;
      break;
    }
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {  // the usual case: no copy of a line that came whole
      take_line(part);
      continue;
    }
    line_ += part;
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line);
  }
  return !stopped_;
}

void EventStreamReader::finish() {
  if (!stopped_ && !line_.empty()) {
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line);
  }
  if (!stopped_) {
    dispatch();
  }
}

bool EventStreamReader::take_line(std::string_view line) {
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  if (line.empty()) {
    return dispatch();
  }
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) {
    return true;
  }
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) {
    line.remove_prefix(1);
  }
  if (has_data_) {
    data_ += '\n';
  }
  data_ += line;
  has_data_ = true;
  return true;
}

bool EventStreamReader::dispatch() {
  if (!has_data_) {
    return true;
  }
  has_data_ = false;
  stopped_ = !on_data_(data_);
  data_.clear();
  return !stopped_;
}

}  // namespace baton::http
