#pragma once

// Reads text/event-stream: bytes in pieces of any size to the data of events. Lines end in LF or
// CR LF; comments and fields other than `data` are passed over; several data lines of one event are
// joined by LF. One thread at a time.

#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::http {

class EventStreamReader {
 public:
  // False stops reading: what follows is ignored.
  using OnData = std::function<bool(std::string_view data)>;

  explicit EventStreamReader(OnData on_data) : on_data_(std::move(on_data)) {}

  // False once on_data said stop, or when an event is larger than 4 MiB.
  bool feed(std::string_view bytes);
  // The stream is over: an event without its closing blank line still counts, because not every
  // server writes one after its last event.
  void finish();
  // kResourceExhausted after an event that was too large.
  const Status& status() const { return status_; }

 private:
  bool take_line(std::string_view line);
  bool dispatch();
  bool overflows(size_t more);

  static constexpr size_t kMaxEventBytes = 4 << 20;
  OnData on_data_;
  std::string line_;  // the beginning of a line that is not complete
  std::string data_;  // of the event that is not complete
  bool has_data_ = false;
  bool stopped_ = false;
  Status status_;
};

}  // namespace baton::http
