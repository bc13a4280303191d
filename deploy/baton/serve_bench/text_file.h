#pragma once

// A whole text file, plain or packed with xz. The one file that sees liblzma is text_file.cc.

#include <string>

#include "common/base/status.h"

namespace baton::serve_bench {

inline constexpr size_t kMaxTextBytes = size_t{512} << 20;

// xz is told by its content, not by the name. kNotFound when it cannot be read, kInvalidArgument
// when it is damaged, kResourceExhausted when it is larger than `limit` unpacked.
Result<std::string> read_text_file(const std::string& path, size_t limit = kMaxTextBytes);

}  // namespace baton::serve_bench
