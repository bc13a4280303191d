#pragma once

// The rows behind keys.h: where each value lives, what it may be, and its one-line documentation.
// Internal to common/config.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/config/config.h"

namespace baton::config {

// An enumeration by the names of its values, in their numeric order.
struct Choice {
  std::span<const std::string_view> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

using Target = std::variant<std::string*, bool*, int64_t*, uint64_t*, double*, Duration*,
                            KvCacheSize*, std::vector<std::string>*, Choice>;

// What a text or integer stands for, where the type of the target does not say it.
enum class Form : uint8_t {
  kPlain,
  kAutoInteger,  // "auto" is 0
  kPowerOfTwo,
  kName,             // of a worker
  kAddress,          // host:port
  kOptionalAddress,  // or empty
  kControl,          // tcp://host:port or ipc:///path
  kControls,         // a list of them
  kCpus,
  kTransports,
};

// A key bound to the struct that holds its value; valid as long as that.
struct Row {
  std::string_view section;  // "" for keys at the top, and for those of a worker
  std::string_view key;
  Target target;
  std::string_view doc;
  Form form = Form::kPlain;
  double least = 0;  // of integers, numbers, sizes and seconds; no limits when equal
  double most = 0;
};

// Keys of the sections and of the top, in the order of printing.
std::vector<Row> rows_of(Config& config);
// Keys of an entry of prefill or decode.
std::vector<Row> rows_of(Worker& worker);

// "duration", "integer 1..64".
std::string type_text(const Row& row);

// Checks `text` and stores it. The message begins with the value and says what would be right; it
// does not name the key.
Status assign(const Row& row, std::string_view text);
Status assign_list(const Row& row, const std::vector<std::string>& items);
bool is_list(const Row& row);

// The value as YAML.
std::string value_text(const Row& row);

}  // namespace baton::config
