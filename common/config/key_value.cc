// Reading, checking and printing the value of one key.
#include <algorithm>
#include <array>

#include "common/config/effective.h"
#include "common/config/key_table.h"
#include "common/config/values.h"

namespace baton::config {
namespace {

constexpr std::array<std::string_view, 3> kTransportNames = {"pool", "ucx-posix", "ucx-tcp"};
constexpr size_t kMaxNameLength = 32;

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string joined(std::span<const std::string_view> names, std::string_view separator) {
  std::string out;
  for (const std::string_view name : names) {
    out += out.empty() ? "" : separator;
    out += name;
  }
  return out;
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kMaxNameLength && text.front() != '-' &&
         std::ranges::all_of(text, allowed);
}

bool is_control(std::string_view text) {
  if (text.starts_with("tcp://")) {
    return host_of_address(text.substr(6)).has_value();
  }
  return text.starts_with("ipc:///") && text.size() > 7;
}

// What a text must be, beyond any text. OK when it is.
Status check_text(Form form, std::string_view text) {
  switch (form) {
    case Form::kPlain:
    case Form::kAutoInteger:
    case Form::kPowerOfTwo:
      return Status();
    case Form::kName:
      return is_name(text) ? Status()
                           : invalid_argument(quoted(text) +
                                              " is not a name; use up to 32 of a-z, 0-9 and -");
    case Form::kOptionalAddress:
      if (text.empty()) {
        return Status();
      }
      [[fallthrough]];
    case Form::kAddress:
      return host_of_address(text)
                 ? Status()
                 : invalid_argument(quoted(text) +
                                    " is not an address; write host:port, for example 127.0.0.1:0");
    case Form::kControl:
    case Form::kControls:
      return is_control(text)
                 ? Status()
                 : invalid_argument(
                       quoted(text) +
                       " is not a control address; write tcp://host:port or ipc:///path");
    case Form::kCpus: {
      const Status status = text == "auto" ? Status() : parse_cpu_list(text).status();
      return status.ok() ? status
                         : invalid_argument(quoted(text) +
                                            " is not a list of CPUs; write auto or for example "
                                            "0-3,8");
    }
    case Form::kTransports:
      return std::ranges::find(kTransportNames, text) != kTransportNames.end()
                 ? Status()
                 : invalid_argument(quoted(text) + " is not a transport; known are " +
                                    joined(kTransportNames, ", "));
  }
  return Status();
}

std::string limits_text(const Row& row, const auto& format) {
  return row.least == row.most ? "" : " " + format(row.least) + ".." + format(row.most);
}

std::string integer_text(double value) { return std::to_string(static_cast<int64_t>(value)); }
std::string seconds_text(double value) { return format_duration(from_seconds(value)); }
std::string size_text(double value) { return format_size(static_cast<uint64_t>(value)); }

Status wrong(const Row& row, std::string_view text) {
  return invalid_argument(quoted(text) + " is not right; expected " + type_text(row));
}

bool within(const Row& row, double value) {
  return row.least == row.most || (value >= row.least && value <= row.most);
}

Status assign_integer(const Row& row, int64_t& into, std::string_view text) {
  if (row.form == Form::kAutoInteger && text == "auto") {
    into = 0;
    return Status();
  }
  const std::optional<int64_t> value = parse_integer(text);
  const bool power = value && *value > 0 && (*value & (*value - 1)) == 0;
  if (!value || !within(row, static_cast<double>(*value)) ||
      (row.form == Form::kPowerOfTwo && !power)) {
    return wrong(row, text);
  }
  into = *value;
  return Status();
}

template <typename T>
Status assign_parsed(const Row& row, T& into, std::string_view text, std::optional<T> value,
                     double magnitude) {
  if (!value || !within(row, magnitude)) {
    return wrong(row, text);
  }
  into = *value;
  return Status();
}

Status assign_choice(const Row& row, const Choice& choice, std::string_view text) {
  const auto found = std::ranges::find(choice.names, text);
  if (found == choice.names.end()) {
    return wrong(row, text);
  }
  choice.set(static_cast<size_t>(found - choice.names.begin()));
  return Status();
}

// Plain where YAML reads it back as the same text, else in double quotes.
std::string yaml_text(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./-").find(c) != std::string_view::npos;
  };
  const auto inner = [&](char c) { return plain(c) || c == ':'; };
  if (!text.empty() && plain(text.front()) && text.front() != '-' && plain(text.back()) &&
      std::ranges::all_of(text, inner) && text != "null") {
    return std::string(text);
  }
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// One visitor a question, so that a new type of value fails to compile until all are answered.
struct TypeText {
  const Row& row;
  std::string operator()(std::string*) const {
    switch (row.form) {
      case Form::kName:
        return "name";
      case Form::kAddress:
        return "host:port";
      case Form::kOptionalAddress:
        return "host:port, or empty";
      case Form::kControl:
        return "tcp://host:port or ipc:///path";
      case Form::kCpus:
        return "auto, or a list like 0-3,8";
      case Form::kPlain:
      case Form::kAutoInteger:
      case Form::kPowerOfTwo:
      case Form::kControls:
      case Form::kTransports:
        break;
    }
    return "text";
  }
  std::string operator()(bool*) const { return "true | false"; }
  std::string operator()(int64_t*) const {
    const std::string range = limits_text(row, integer_text);
    if (row.form == Form::kPowerOfTwo) {
      return "power of two" + range;
    }
    return (row.form == Form::kAutoInteger ? "auto, or an integer" : "integer") + range;
  }
  std::string operator()(uint64_t*) const {
    return "size like 32MiB," + limits_text(row, size_text);
  }
  std::string operator()(double*) const { return "number" + limits_text(row, format_number); }
  std::string operator()(Duration*) const {
    return "duration like 30s or 500ms," + limits_text(row, seconds_text);
  }
  std::string operator()(KvCacheSize*) const {
    return "auto, a size like 512MiB, or a count like 64blocks";
  }
  std::string operator()(std::vector<std::string>*) const {
    switch (row.form) {
      case Form::kControls:
        return "list of tcp://host:port or ipc:///path";
      case Form::kTransports:
        return "list of " + joined(kTransportNames, " | ");
      default:
        return "list of text";
    }
  }
  std::string operator()(const Choice& choice) const { return joined(choice.names, " | "); }
};

struct Assign {
  const Row& row;
  std::string_view text;
  Status operator()(std::string* into) const {
    BATON_RETURN_IF_ERROR(check_text(row.form, text));
    *into = text;
    return Status();
  }
  Status operator()(bool* into) const {
    if (text != "true" && text != "false") {
      return wrong(row, text);
    }
    *into = text == "true";
    return Status();
  }
  Status operator()(int64_t* into) const { return assign_integer(row, *into, text); }
  Status operator()(uint64_t* into) const {
    const std::optional<uint64_t> value = parse_size(text);
    return assign_parsed(row, *into, text, value, static_cast<double>(value.value_or(0)));
  }
  Status operator()(double* into) const {
    const std::optional<double> value = parse_number(text);
    return assign_parsed(row, *into, text, value, value.value_or(0));
  }
  Status operator()(Duration* into) const {
    const std::optional<Duration> value = parse_duration(text);
    return assign_parsed(row, *into, text, value, to_seconds(value.value_or(Duration())));
  }
  Status operator()(KvCacheSize* into) const {
    return assign_parsed(row, *into, text, parse_kv_cache(text), 0);
  }
  Status operator()(std::vector<std::string>*) const { return wrong(row, text); }
  Status operator()(const Choice& choice) const { return assign_choice(row, choice, text); }
};

struct ValueText {
  const Row& row;
  std::string operator()(std::string* value) const { return yaml_text(*value); }
  std::string operator()(bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(int64_t* value) const {
    return row.form == Form::kAutoInteger && *value == 0 ? "auto" : std::to_string(*value);
  }
  std::string operator()(uint64_t* value) const { return format_size(*value); }
  std::string operator()(double* value) const { return format_number(*value); }
  std::string operator()(Duration* value) const { return format_duration(*value); }
  std::string operator()(KvCacheSize* value) const { return format_kv_cache(*value); }
  std::string operator()(std::vector<std::string>* value) const {
    std::string out = "[";
    for (const std::string& item : *value) {
      out += (out.size() > 1 ? ", " : "") + yaml_text(item);
    }
    return out + "]";
  }
  std::string operator()(const Choice& choice) const {
    return std::string(choice.names[choice.get()]);
  }
};

}  // namespace

std::string type_text(const Row& row) { return std::visit(TypeText{row}, row.target); }

Status assign(const Row& row, std::string_view text) {
  return std::visit(Assign{row, text}, row.target);
}

bool is_list(const Row& row) {
  return std::holds_alternative<std::vector<std::string>*>(row.target);
}

Status assign_list(const Row& row, const std::vector<std::string>& items) {
  if (!is_list(row)) {
    return invalid_argument("a list is not right; expected " + type_text(row));
  }
  for (const std::string& item : items) {
    BATON_RETURN_IF_ERROR(check_text(row.form, item));
  }
  *std::get<std::vector<std::string>*>(row.target) = items;
  return Status();
}

std::string value_text(const Row& row) { return std::visit(ValueText{row}, row.target); }

}  // namespace baton::config
