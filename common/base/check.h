#pragma once

// BATON_CHECK(condition, message): aborts with the message, file and line when our own code broke a
// promise. Never used for input from outside.

#include <source_location>
#include <string_view>

namespace baton {

// Writes "file:line: check failed: <expression>: <message>" to stderr and aborts.
[[noreturn]] void check_failed(std::string_view expression, std::string_view message,
                               std::source_location where = std::source_location::current());

}  // namespace baton

#define BATON_CHECK(condition, message)             \
  do {                                              \
    if (!(condition)) [[unlikely]] {                \
      ::baton::check_failed(#condition, (message)); \
    }                                               \
  } while (false)
