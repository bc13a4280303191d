#pragma once

// The last requests that ended, for `baton explain`. Bounded in number, and each record in size.
// Used by the router loop only.

#include <deque>
#include <string_view>

#include "router/request_record.h"

namespace baton::router {

class RequestHistory {
 public:
  static constexpr size_t kMostRequests = 1000;

  void add(RequestRecord record);
  // By x-request-id or by the answer's id; the newest when a client used one twice. Null when it is
  // not known, or not any more. Valid until the next add().
  const RequestRecord* find(std::string_view id) const;
  size_t size() const { return records_.size(); }
  // When the oldest that is still known ended; `now` without any.
  TimePoint oldest(TimePoint now) const { return records_.empty() ? now : records_.front().ended; }

 private:
  std::deque<RequestRecord> records_;
};

bool has_id(const RequestRecord& record, std::string_view id);

}  // namespace baton::router
