#include "deploy/baton/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "common/config/program_options.h"
#include "deploy/baton/json_fields.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/terminal_text.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

constexpr Duration kTimeout = 5s;

// What a client or a worker chose is shown, but does not speak to the terminal.
std::string shown(const json::object& object, std::string_view key) {
  return one_line(text_of(object, key));
}

bool flag_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

// The objects of a list; anything else is left out.
std::vector<const json::object*> objects_of(const json::object& object, std::string_view key) {
  std::vector<const json::object*> out;
  if (const json::array* items = array_of(object, key); items != nullptr) {
    for (const json::value& item : *items) {
      if (item.is_object()) {
        out.push_back(&item.get_object());
      }
    }
  }
  return out;
}

std::string ms(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), *value < 100 ? "%.1f ms" : "%.0f ms", *value);
  return text.data();
}

std::string ms_of(const json::object& object, std::string_view key) {
  return ms(optional_number_of(object, key));
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
  std::string out = "request   " + shown(request, "id");
  out += "\n          x-request-id " + shown(request, "request_id");
  out += "\nstate     " + shown(request, "state");
  if (const std::string reason = shown(request, "finish_reason"); !reason.empty()) {
    out += " (" + reason + ")";
  }
  if (const std::string error = shown(request, "error_message"); !error.empty()) {
    out += ": " + error;
  }
  out += "\nsizes     " + std::to_string(integer_of(request, "prompt_tokens")) +
         " prompt tokens (" + std::to_string(integer_of(request, "cached_tokens")) + " cached), " +
         std::to_string(integer_of(request, "completion_tokens")) + " of at most " +
         std::to_string(integer_of(request, "max_tokens")) + " output tokens";
  const double streams = number_of(request, "prompts") * number_of(request, "choices");
  if (streams > 1) {
    out += " in " + std::to_string(std::llround(std::min(streams, 1e9))) + " choices";
  }
  out += "\ntimes     first token " + ms_of(request, "ttft_ms") + ", then " +
         ms_of(request, "tpot_ms") + " a token, total " + ms_of(request, "total_ms");
  if (const int64_t moves = integer_of(request, "moves"); moves > 0) {
    out += ", moved " + std::to_string(moves) + (moves == 1 ? " time" : " times");
  }
  return out + "\n";
}

std::string phases(const json::object& request) {
  const double total = number_of(request, "total_ms");
  std::string out = "\n" + left("PHASE", 17) + right("TOOK", 10) + right("PREDICTED", 11) + "\n";
  for (const json::object* phase : objects_of(request, "phases")) {
    const double begin = number_of(*phase, "begin_ms");
    const double end = optional_number_of(*phase, "end_ms").value_or(begin);
    out += left(shown(*phase, "name"), 17) + right(ms(end - begin), 10) +
           right(ms_of(*phase, "predicted_ms"), 11) + "  " + bar(begin, end, total) + "\n";
  }
  return out;
}

std::string candidates(const json::object& attempt) {
  std::string out = "  " + left("CANDIDATE", 14) + left("ROLE", 8) + right("UNCACHED", 9) +
                    right("QUEUE", 10) + right("PREFILL", 10) + right("TRANSFER", 10) +
                    right("BLOCKS", 10) + "\n";
  for (const json::object* worker : objects_of(attempt, "considered")) {
    const bool decode = shown(*worker, "role") == "decode";
    const auto of_decode = [&](std::string_view key) {
      return decode ? ms_of(*worker, key) : std::string("-");
    };
    out += (flag_of(*worker, "chosen") ? "* " : "  ") + left(shown(*worker, "worker"), 14) +
           left(shown(*worker, "role"), 8) +
           right(std::to_string(integer_of(*worker, "uncached_tokens")), 9) +
           right(ms_of(*worker, "queue_ms"), 10) + right(ms_of(*worker, "prefill_ms"), 10) +
           right(of_decode("transfer_ms"), 10) + right(of_decode("blocks_ms"), 10) + "\n";
  }
  return out;
}

std::string measured(const json::object& attempt) {
  const json::object* measured = object_of(attempt, "measured");
  if (measured == nullptr) {
    return "";
  }
  std::string out =
      "  prefill   " + std::to_string(integer_of(*measured, "prompt_tokens_computed")) +
      " tokens in " + std::to_string(integer_of(*measured, "prefill_chunks")) + " steps, " +
      std::to_string(integer_of(*measured, "prompt_tokens_cached")) + " cached\n";
  if (const std::string transport = shown(*measured, "transport"); !transport.empty()) {
    out += "  hand-over " + std::to_string(integer_of(*measured, "transfer_bytes")) +
           " bytes over " + transport + ": room after " + ms_of(*measured, "grant_ms") +
           ",\n            first byte after " + ms_of(*measured, "first_data_ms") +
           ", done after " + ms_of(*measured, "transfer_ms") + ",\n            " +
           ms_of(*measured, "transfer_visible_ms") + " after the prefill\n";
  }
  return out;
}

std::string attempt_text(const json::object& attempt) {
  const std::string prefill = shown(attempt, "prefill");
  const std::string decode = shown(attempt, "decode");
  std::string out = "\nDECISION  " + shown(attempt, "decision") + " (" + shown(attempt, "reason") +
                    "): " + (prefill.empty() ? "all on " + decode : prefill + " -> " + decode);
  if (const std::string why = shown(attempt, "moved_because"); !why.empty()) {
    out += "\n  moved:    " + why;
  }
  return out + "\n" + measured(attempt) + candidates(attempt);
}

std::string timeline(const json::object& request) {
  std::string out = "\nTIME LINE\n";
  for (const json::object* event : objects_of(request, "timeline")) {
    const std::string detail = shown(*event, "detail");
    out += right(ms_of(*event, "at_ms"), 12) + "  " +
           (detail.empty() ? shown(*event, "event")
                           : left(shown(*event, "event"), 21) + " " + detail) +
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
  BATON_ASSIGN_OR_RETURN(const std::string key, first_api_key(options.api_key_file));
  return RouterClient({options.url, key, trust_in(options.cacert)}, kTimeout)
      .get("/baton/requests/" + path_segment(options.request_id));
}

}  // namespace

Result<std::string> explain_text(const std::string& json) {
  BATON_ASSIGN_OR_RETURN(const json::object request, parse_object(json));
  std::string out = heading(request) + phases(request);
  for (const json::object* attempt : objects_of(request, "attempts")) {
    out += attempt_text(*attempt);
  }
  if (const int64_t more = integer_of(request, "attempts_forgotten"); more > 0) {
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
    std::fprintf(stderr, "baton: %s\n", one_line(answer.status().message()).c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s%s", printable(*answer).c_str(), options.json ? "\n" : "");
  return config::kExitStopped;
}

}  // namespace baton::cli
