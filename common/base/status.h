#pragma once

// Status and Result<T>: how every function of Baton reports failure. No exception leaves a function
// of ours; adapters of libraries that throw catch at the edge.
//
// An OK status is a null pointer, so returning one costs nothing. Both types are values, safe to
// move between threads, and [[nodiscard]].

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace baton {

// The numeric values go over the wire (common/wire) and are never renumbered.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,    // the input is wrong, whoever retries it
  kUnauthenticated = 2,    // key missing or wrong
  kNotFound = 3,           // path, model, request
  kIncompatible = 4,       // two processes cannot work together (model, layout, numerics, version)
  kResourceExhausted = 5,  // queue or pool full; may succeed later
  kCancelled = 6,          // asked to stop
  kDeadlineExceeded = 7,
  kUnavailable = 8,     // loading, draining, no worker
  kWorkerLost = 9,      // a peer process is gone; the request itself may be fine
  kWorkerCrashed = 10,  // the request is held to be the cause of deaths
  kUnsupported = 11,    // well-formed, but not something Baton does
  kInternal = 12,       // our own fault or the system's
};

// What the code means outside: one row per code, the only such table.
struct StatusCodeInfo {
  std::string_view label;  // metric label and log word, e.g. "deadline_exceeded"
  int http_status;
  std::string_view http_type;  // OpenAI error "type"
  bool may_retry;
};
const StatusCodeInfo& status_code_info(StatusCode code);
// The code of a wire value; kInternal for a value that this build does not know.
StatusCode status_code_from_wire(uint32_t value);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message)
      : rep_(code == StatusCode::kOk ? nullptr
                                     : std::make_unique<Rep>(Rep{code, std::move(message)})) {}
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  const std::string& message() const;
  // "deadline_exceeded: transfer 17 to d1: no progress for 2 s"; "ok" when ok.
  std::string to_string() const;
  // The same code with `context` and ": " before the message. For use where an error crosses a
  // module.
  Status with_context(std::string_view context) const;

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

Status invalid_argument(std::string message);
Status unauthenticated(std::string message);
Status not_found(std::string message);
Status incompatible(std::string message);
Status resource_exhausted(std::string message);
Status cancelled(std::string message);
Status deadline_exceeded(std::string message);
Status unavailable(std::string message);
Status worker_lost(std::string message);
Status worker_crashed(std::string message);
Status unsupported(std::string message);
Status internal_error(std::string message);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit
    BATON_CHECK(!std::get<1>(state_).ok(), "a Result without a value needs an error");
  }

  bool ok() const { return state_.index() == 0; }
  // OK when there is a value.
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  // Precondition: ok().
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

 private:
  T& checked() {
    if (!ok()) {
      BATON_CHECK(false, std::get<1>(state_).to_string());
    }
    return std::get<0>(state_);
  }
  std::variant<T, Status> state_;
};

}  // namespace baton

#define BATON_RETURN_IF_ERROR(expr)                          \
  do {                                                       \
    if (::baton::Status baton_s_ = (expr); !baton_s_.ok()) { \
      return baton_s_;                                       \
    }                                                        \
  } while (false)

#define BATON_CONCAT_INNER_(a, b) a##b
#define BATON_CONCAT_(a, b) BATON_CONCAT_INNER_(a, b)
// BATON_ASSIGN_OR_RETURN(auto file, open(path));
#define BATON_ASSIGN_OR_RETURN(lhs, expr)              \
  auto BATON_CONCAT_(baton_r_, __LINE__) = (expr);     \
  if (!BATON_CONCAT_(baton_r_, __LINE__).ok()) {       \
    return BATON_CONCAT_(baton_r_, __LINE__).status(); \
  }                                                    \
  lhs = std::move(BATON_CONCAT_(baton_r_, __LINE__)).value()
