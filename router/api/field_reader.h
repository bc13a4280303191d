#pragma once

// Reads the fields of a JSON request by type and range. The first fault is kept with its field's
// name, so that callers read all fields and look once; a reader of a wrong field returns nothing.
// null counts as absent. A field that nobody read is unknown.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "common/base/status.h"

namespace baton::router {

// What a client wrote, for an error message: cut after 100 bytes.
std::string shortened(std::string_view text);

class FieldReader {
 public:
  // `object` and the names given to the readers (literals) outlive the reader.
  explicit FieldReader(const boost::json::object& object) : object_(object) {}

  // The raw value; null when absent or null.
  const boost::json::value* raw(std::string_view name);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  // A string or a list of strings.
  std::vector<std::string> texts(std::string_view name, size_t max_items);
  std::vector<int32_t> token_ids(std::string_view name, size_t max_items, int32_t vocab);

  // Fields that are known and have no effect.
  void ignore(std::initializer_list<std::string_view> names);
  // Anything but absent or null is refused as unsupported.
  void refuse(std::string_view name, std::string_view why);

  void fail(std::string_view field, std::string message);
  const Status& status() const { return status_; }
  const std::string& param() const { return param_; }
  // At most `max_items` of the names that nobody read.
  std::vector<std::string> unknown(size_t max_items) const;

 private:
  const boost::json::object& object_;
  std::vector<std::string_view> seen_;
  Status status_;
  std::string param_;
};

}  // namespace baton::router
