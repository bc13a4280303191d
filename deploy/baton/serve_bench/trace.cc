#include "deploy/baton/serve_bench/trace.h"

#include <algorithm>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

#include "deploy/baton/serve_bench/text_file.h"

namespace baton::serve_bench {
namespace {

namespace json = boost::json;

constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kAzureRow = "2023-11-16 18:17:03.9799600,4808,10";
constexpr std::string_view kMooncakeRow =
    "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}";
constexpr int64_t kMaxTokens = 1 << 24;
// Longest time that is understood: a year. Keeps sums far from overflow.
constexpr int64_t kMaxMs = int64_t{366} * 24 * 3600 * 1000;

// Takes a number of 1 to `digits` digits from the front.
std::optional<int64_t> take_number(std::string_view& text, size_t digits) {
  int64_t value = 0;
  const char* end = text.data() + std::min(text.size(), digits);
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

// ".9799600" in nanoseconds; no fraction is zero.
std::optional<int64_t> take_fraction(std::string_view& text) {
  if (!take(text, '.')) {
    return 0;
  }
  const size_t before = text.size();
  const std::optional<int64_t> value = take_number(text, 9);
  if (!value) {
    return std::nullopt;
  }
  int64_t ns = *value;
  for (size_t digits = before - text.size(); digits < 9; ++digits) {
    ns *= 10;
  }
  return ns;
}

// "2023-11-16 18:17:03.9799600": time since 1970.
std::optional<Duration> take_timestamp(std::string_view& text) {
  int64_t part[6];
  constexpr size_t kDigits[6] = {4, 2, 2, 2, 2, 2};
  constexpr std::string_view kAfter = "-- ::";
  for (size_t i = 0; i < 6; ++i) {
    const std::optional<int64_t> value = take_number(text, kDigits[i]);
    if (!value || (i < kAfter.size() && !take(text, kAfter[i]))) {
      return std::nullopt;
    }
    part[i] = *value;
  }
  const std::optional<int64_t> fraction = take_fraction(text);
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(part[0])),
                                        std::chrono::month(static_cast<unsigned>(part[1])),
                                        std::chrono::day(static_cast<unsigned>(part[2])));
  if (!fraction || !day.ok() || part[0] < 1970 || part[0] > 2200 || part[3] > 23 || part[4] > 59 ||
      part[5] > 60) {
    return std::nullopt;
  }
  return std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(part[3]) +
         std::chrono::minutes(part[4]) + std::chrono::seconds(part[5]) + Duration(*fraction);
}

// Lengths of nothing are asked for as 1: a server refuses an empty prompt or answer.
std::optional<int> tokens_of(int64_t count) {
  return count < 0 || count > kMaxTokens
             ? std::nullopt
             : std::optional<int>(std::max<int>(1, static_cast<int>(count)));
}

std::optional<PlannedRequest> azure_row(std::string_view line) {
  PlannedRequest request;
  const std::optional<Duration> at = take_timestamp(line);
  if (!at || !take(line, ',')) {
    return std::nullopt;
  }
  const std::optional<int64_t> input = take_number(line, 10);
  if (!input || !take(line, ',')) {
    return std::nullopt;
  }
  const std::optional<int64_t> output = take_number(line, 10);
  if (!output || !line.empty() || !tokens_of(*input) || !tokens_of(*output)) {
    return std::nullopt;
  }
  return PlannedRequest{*at, *tokens_of(*input), *tokens_of(*output), {}};
}

std::optional<int64_t> integer_of(const json::object& object, std::string_view key, int64_t most) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  const int64_t number =
      value != nullptr && value->is_number() ? value->to_number<int64_t>(error) : -1;
  return error || number < 0 || number > most ? std::nullopt : std::optional(number);
}

bool take_blocks(const json::object& object, std::vector<uint64_t>& blocks) {
  const json::value* ids = object.if_contains("hash_ids");
  if (ids == nullptr) {
    return true;
  }
  if (!ids->is_array()) {
    return false;
  }
  for (const json::value& id : ids->get_array()) {
    boost::system::error_code error;
    blocks.push_back(id.to_number<uint64_t>(error));
    if (error) {
      return false;
    }
  }
  return true;
}

std::optional<PlannedRequest> mooncake_row(std::string_view line) {
  json::monotonic_resource memory;
  boost::system::error_code error;
  const json::value value = json::parse(line, error, &memory);
  if (error || !value.is_object()) {
    return std::nullopt;
  }
  const json::object& object = value.get_object();
  const std::optional<int64_t> ms = integer_of(object, "timestamp", kMaxMs);
  const std::optional<int64_t> input = integer_of(object, "input_length", kMaxTokens);
  const std::optional<int64_t> output = integer_of(object, "output_length", kMaxTokens);
  PlannedRequest request;
  if (!ms || !input || !output || !take_blocks(object, request.blocks)) {
    return std::nullopt;
  }
  request.offset = std::chrono::milliseconds(*ms);
  request.input_tokens = *tokens_of(*input);
  request.output_tokens = *tokens_of(*output);
  return request;
}

Status wrong_line(const std::string& name, size_t number, std::string_view right) {
  return invalid_argument(name + ":" + std::to_string(number) +
                          ": not a line of this trace; right would be " + std::string(right));
}

}  // namespace

Result<std::vector<PlannedRequest>> parse_trace(std::string_view text, const std::string& name) {
  std::vector<PlannedRequest> requests;
  const bool mooncake = text.starts_with('{');
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (number == 1 && !mooncake) {
      if (line != kAzureHeader) {
        return invalid_argument(name + ":1: not a trace that is known; right would be the header " +
                                std::string(kAzureHeader) + " or a line like " +
                                std::string(kMooncakeRow));
      }
      continue;
    }
    if (line.empty()) {
      continue;
    }
    std::optional<PlannedRequest> request = mooncake ? mooncake_row(line) : azure_row(line);
    if (!request) {
      return wrong_line(name, number, mooncake ? kMooncakeRow : kAzureRow);
    }
    requests.push_back(*std::move(request));
  }
  if (requests.empty()) {
    return invalid_argument(name + " holds no request");
  }
  std::ranges::stable_sort(requests, {}, &PlannedRequest::offset);
  const Duration first = requests.front().offset;
  for (PlannedRequest& request : requests) {
    request.offset -= first;
  }
  return requests;
}

Result<std::vector<PlannedRequest>> read_trace(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_trace(text, path);
}

}  // namespace baton::serve_bench
