#include "common/tokenizer/space_marks.h"

namespace baton::tokenizer {
namespace {

using After = EncodeOptions::After;

// No spaces at both ends, one where several follow each other.
std::string without_extra_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) {
      out += c;
    }
  }
  if (out.ends_with(' ')) {
    out.pop_back();
  }
  return out;
}

bool has_prefix(const SpaceRules& rules, std::string_view text, After after) {
  if (text.empty() || after == After::kText) {
    return false;
  }
  switch (rules.prefix) {
    case SpaceRules::Prefix::kNone:
      return false;
    case SpaceRules::Prefix::kEverySegment:
      return true;
    case SpaceRules::Prefix::kUnlessSpace:
      return text[0] != ' ';
    case SpaceRules::Prefix::kFirstUnlessSpace:
      return after == After::kNothing && text[0] != ' ';
  }
  return false;
}

}  // namespace

std::string spaces_from_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 1);
  for (size_t mark = text.find(kSpaceMark); mark != std::string_view::npos;
       mark = text.find(kSpaceMark)) {
    out.append(text.substr(0, mark)) += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  return out.append(text);
}

std::string with_space_rules(std::string_view text, const SpaceRules& rules, After after) {
  std::string out = spaces_from_marks(text);
  if (rules.remove_extra) {
    out = without_extra_spaces(out);
  }
  if (has_prefix(rules, out, after)) {
    out.insert(out.begin(), ' ');
  }
  return out;
}

}  // namespace baton::tokenizer
