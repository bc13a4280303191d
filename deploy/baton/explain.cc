#include "deploy/baton/explain.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "common/config/program_options.h"
#include "deploy/baton/router_client.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

constexpr Duration kTimeout = 5s;

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) {
    return "";
  }
  // What a client chose is shown, but does not speak to the terminal.
  std::string text(value->get_string());
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return text;
}

std::optional<double> number_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) {
    return std::nullopt;
  }
  return value->to_number<double>();
}

int64_t count_of(const json::object& object, std::string_view key) {
  return static_cast<int64_t>(number_of(object, key).value_or(0));
}

bool flag_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

// The objects of a list; anything else is left out.
std::vector<const json::object*> objects_of(const json::object& object, std::string_view key) {
  std::vector<const json::object*> out;
  const json::value* value = object.if_contains(key);
  if (value != nullptr && value->is_array()) {
    for (const json::value& item : value->get_array()) {
      if (item.is_object()) {
        out.push_back(&item.get_object());
      }
    }
  }
  return out;
}

const json::object* object_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

std::string ms(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), *value < 100 ? "%.1f ms" : "%.0f ms", *value);
  return text.data();
}

std::string left(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Where [begin, end) lies in [0, total).
std::string bar(double begin, double end, double total) {
  constexpr int kWidth = 30;
  const double scale = total > 0 ? kWidth / total : 0;
  const int first = std::clamp(static_cast<int>(begin * scale), 0, kWidth - 1);
  const int last = std::clamp(static_cast<int>(end * scale + 0.5), first + 1, kWidth);
  std::string out(kWidth, '.');
  std::fill(out.begin() + first, out.begin() + last, '#');
  return out;
}

std::string heading(const json::object& request) {
  std::string out = "request   " + text_of(request, "id");
  out += "\n          x-request-id " + text_of(request, "request_id");
  out += "\nstate     " + text_of(request, "state");
  if (const std::string reason = text_of(request, "finish_reason"); !reason.empty()) {
    out += " (" + reason + ")";
  }
  if (const std::string error = text_of(request, "error_message"); !error.empty()) {
    out += ": " + error;
  }
  out += "\nsizes     " + std::to_string(count_of(request, "prompt_tokens")) + " prompt tokens (" +
         std::to_string(count_of(request, "cached_tokens")) + " cached), " +
         std::to_string(count_of(request, "completion_tokens")) + " of at most " +
         std::to_string(count_of(request, "max_tokens")) + " output tokens";
  const int64_t streams = count_of(request, "prompts") * count_of(request, "choices");
  if (streams > 1) {
    out += " in " + std::to_string(streams) + " choices";
  }
  out += "\ntimes     first token " + ms(number_of(request, "ttft_ms")) + ", then " +
         ms(number_of(request, "tpot_ms")) + " a token, total " +
         ms(number_of(request, "total_ms"));
  if (const int64_t moves = count_of(request, "moves"); moves > 0) {
    out += ", moved " + std::to_string(moves) + (moves == 1 ? " time" : " times");
  }
  return out + "\n";
}

std::string phases(const json::object& request) {
  const double total = number_of(request, "total_ms").value_or(0);
  std::string out = "\n" + left("PHASE", 17) + right("TOOK", 10) + right("PREDICTED", 11) + "\n";
  for (const json::object* phase : objects_of(request, "phases")) {
    const double begin = number_of(*phase, "begin_ms").value_or(0);
    const double end = number_of(*phase, "end_ms").value_or(begin);
    out += left(text_of(*phase, "name"), 17) + right(ms(end - begin), 10) +
           right(ms(number_of(*phase, "predicted_ms")), 11) + "  " + bar(begin, end, total) + "\n";
  }
  return out;
}

std::string candidates(const json::object& attempt) {
  std::string out = "  " + left("CANDIDATE", 14) + left("ROLE", 8) + right("UNCACHED", 9) +
                    right("QUEUE", 10) + right("PREFILL", 10) + right("TRANSFER", 10) +
                    right("BLOCKS", 10) + "\n";
  for (const json::object* worker : objects_of(attempt, "considered")) {
    const bool decode = text_of(*worker, "role") == "decode";
    const auto of_decode = [&](std::string_view key) {
      return decode ? ms(number_of(*worker, key)) : std::string("-");
    };
    out += (flag_of(*worker, "chosen") ? "* " : "  ") + left(text_of(*worker, "worker"), 14) +
           left(text_of(*worker, "role"), 8) +
           right(std::to_string(count_of(*worker, "uncached_tokens")), 9) +
           right(ms(number_of(*worker, "queue_ms")), 10) +
           right(ms(number_of(*worker, "prefill_ms")), 10) + right(of_decode("transfer_ms"), 10) +
           right(of_decode("blocks_ms"), 10) + "\n";
  }
  return out;
}

std::string measured(const json::object& attempt) {
  const json::object* measured = object_of(attempt, "measured");
  if (measured == nullptr) {
    return "";
  }
  std::string out = "  prefill   " + std::to_string(count_of(*measured, "prompt_tokens_computed")) +
                    " tokens in " + std::to_string(count_of(*measured, "prefill_chunks")) +
                    " steps, " + std::to_string(count_of(*measured, "prompt_tokens_cached")) +
                    " cached\n";
  if (const std::string transport = text_of(*measured, "transport"); !transport.empty()) {
    out += "  hand-over " + std::to_string(count_of(*measured, "transfer_bytes")) + " bytes over " +
           transport + ": room after " + ms(number_of(*measured, "grant_ms")) +
           ",\n            first byte after " + ms(number_of(*measured, "first_data_ms")) +
           ", done after " + ms(number_of(*measured, "transfer_ms")) + ",\n            " +
           ms(number_of(*measured, "transfer_visible_ms")) + " after the prefill\n";
  }
  return out;
}

std::string attempt_text(const json::object& attempt) {
  const std::string prefill = text_of(attempt, "prefill");
  const std::string decode = text_of(attempt, "decode");
  std::string out = "\nDECISION  " + text_of(attempt, "decision") + " (" +
                    text_of(attempt, "reason") +
                    "): " + (prefill.empty() ? "all on " + decode : prefill + " -> " + decode);
  if (const std::string why = text_of(attempt, "moved_because"); !why.empty()) {
    out += "\n  moved:    " + why;
  }
  return out + "\n" + measured(attempt) + candidates(attempt);
}

std::string timeline(const json::object& request) {
  std::string out = "\nTIME LINE\n";
  for (const json::object* event : objects_of(request, "timeline")) {
    const std::string detail = text_of(*event, "detail");
    out += right(ms(number_of(*event, "at_ms")), 12) + "  " +
           (detail.empty() ? text_of(*event, "event")
                           : left(text_of(*event, "event"), 21) + " " + detail) +
           "\n";
  }
  return out;
}

// An id as one segment of a path.
std::string path_segment(const std::string& id) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : id) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      std::array<char, 4> hex{};
      std::snprintf(hex.data(), hex.size(), "%%%02X", static_cast<unsigned>(c) & 0xFFu);
      out += hex.data();
    }
  }
  return out;
}

Result<std::string> ask(const ExplainOptions& options) {
  std::string key;
  if (!options.api_key_file.empty()) {
    BATON_ASSIGN_OR_RETURN(key, first_api_key(options.api_key_file));
  }
  return RouterClient(options.url, key, kTimeout)
      .get("/baton/requests/" + path_segment(options.request_id));
}

}  // namespace

Result<std::string> explain_text(const std::string& json) {
  boost::system::error_code error;
  const json::value value = json::parse(json, error);
  if (error || !value.is_object()) {
    return internal_error("the router's answer is no JSON object");
  }
  const json::object& request = value.get_object();
  std::string out = heading(request) + phases(request);
  for (const json::object* attempt : objects_of(request, "attempts")) {
    out += attempt_text(*attempt);
  }
  if (const int64_t more = count_of(request, "attempts_forgotten"); more > 0) {
    out += "\n" + std::to_string(more) + " more placements are not remembered\n";
  }
  return out + timeline(request);
}

int run_explain(const ExplainOptions& options) {
  Result<std::string> answer = ask(options);
  if (answer.ok() && !options.json) {
    answer = explain_text(*answer);
  }
  if (!answer.ok()) {
    std::fprintf(stderr, "baton: %s\n", answer.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s%s", answer->c_str(), options.json ? "\n" : "");
  return config::kExitStopped;
}

}  // namespace baton::cli
