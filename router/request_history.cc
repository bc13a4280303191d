#include "router/request_history.h"

#include <algorithm>
#include <utility>

namespace baton::router {

bool has_id(const RequestRecord& record, std::string_view id) {
  return !id.empty() && (record.answer_id == id || record.request_id == id);
}

void RequestHistory::add(RequestRecord record) {
  record.trim();
  records_.push_back(std::move(record));
  if (records_.size() > kMostRequests) {
    records_.pop_front();
  }
}

const RequestRecord* RequestHistory::find(std::string_view id) const {
  const auto found = std::find_if(records_.rbegin(), records_.rend(),
                                  [id](const RequestRecord& r) { return has_id(r, id); });
  return found == records_.rend() ? nullptr : &*found;
}

}  // namespace baton::router
