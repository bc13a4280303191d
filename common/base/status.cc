#include "common/base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace baton {
namespace {

constexpr std::array<StatusCodeInfo, 13> kTable = {{
    {"ok", 200, "", false},
    {"invalid_argument", 400, "invalid_request_error", false},
    {"unauthenticated", 401, "authentication_error", false},
    {"not_found", 404, "not_found_error", false},
    {"incompatible", 503, "incompatible_worker_error", false},
    {"resource_exhausted", 429, "overloaded_error", true},
    {"cancelled", 499, "cancelled_error", false},
    {"deadline_exceeded", 504, "timeout_error", true},
    {"unavailable", 503, "unavailable_error", true},
    {"worker_lost", 503, "worker_lost_error", true},
    {"worker_crashed", 500, "worker_crashed_error", false},
    {"unsupported", 400, "invalid_request_error", false},
    {"internal", 500, "internal_error", false},
}};

}  // namespace

const StatusCodeInfo& status_code_info(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  BATON_CHECK(index < kTable.size(), "unknown status code");
  return kTable[index];
}

StatusCode status_code_from_wire(uint32_t value) {
  return value < kTable.size() ? static_cast<StatusCode>(value) : StatusCode::kInternal;
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return rep_ ? rep_->message : kEmpty;
}

std::string Status::to_string() const {
  if (ok()) {
    return "ok";
  }
  return std::string(status_code_info(rep_->code).label) + ": " + rep_->message;
}

Status Status::with_context(std::string_view context) const {
  return ok() ? Status() : Status(rep_->code, std::string(context) + ": " + rep_->message);
}

Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}
Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status incompatible(std::string message) { return {StatusCode::kIncompatible, std::move(message)}; }
Status resource_exhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status cancelled(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
Status deadline_exceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
Status unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
Status worker_lost(std::string message) { return {StatusCode::kWorkerLost, std::move(message)}; }
Status worker_crashed(std::string message) {
  return {StatusCode::kWorkerCrashed, std::move(message)};
}
Status unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

void check_failed(std::string_view expression, std::string_view message,
                  std::source_location where) {
  std::fprintf(stderr, "%s:%u: check failed: %.*s: %.*s\n", where.file_name(), where.line(),
               static_cast<int>(expression.size()), expression.data(),
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace baton
