#pragma once

// Messages to bytes and back: one Protobuf envelope (baton.proto) per message.

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/wire/messages.h"

namespace baton::wire {

inline constexpr size_t kMaxMessageBytes = 64u << 20;

std::string encode(const Message& message);
// invalid_argument for bytes that are no envelope, an unknown message, ids of the wrong size,
// values outside their range or more than kMaxMessageBytes. Never aborts.
Result<Message> decode(std::string_view bytes);
std::string_view message_name(const Message& message);  // "reserve"

}  // namespace baton::wire
