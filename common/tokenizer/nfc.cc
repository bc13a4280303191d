#include "common/tokenizer/nfc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "common/tokenizer/unicode/nfc_tables.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

// Hangul syllables are composed by arithmetic (Unicode Standard, 3.12).
constexpr char32_t kSyllableBase = 0xAC00, kSyllableCount = 11172;
constexpr char32_t kLeadBase = 0x1100, kLeadCount = 19;
constexpr char32_t kVowelBase = 0x1161, kVowelCount = 21;
constexpr char32_t kTrailBase = 0x11A7, kTrailCount = 28;  // the first stands for no trail

constexpr uint64_t kPartMask = (1u << 21) - 1;
// Invalid bytes pass through as code points above all others.
constexpr char32_t kRawByte = 0x80000000;

struct Element {
  char32_t value;
  uint8_t combining_class;
};

char32_t code_point_of(uint64_t pair) { return (pair >> 42) & kPartMask; }
char32_t first_of(uint64_t pair) { return (pair >> 21) & kPartMask; }
char32_t second_of(uint64_t pair) { return pair & kPartMask; }
bool is_composed(uint64_t pair) { return (pair >> 63) == 0; }

// The pair that `c` decomposes to, or null.
const uint64_t* decomposition_of(char32_t c) {
  const std::span pairs(kCanonicalPairs, kCanonicalPairCount);
  const auto found =
      std::lower_bound(pairs.begin(), pairs.end(), c,
                       [](uint64_t pair, char32_t value) { return code_point_of(pair) < value; });
  return found != pairs.end() && code_point_of(*found) == c ? &*found : nullptr;
}

uint8_t combining_class_of(char32_t c) {
  const std::span ranges(kCombiningRanges, kCombiningRangeCount);
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), c,
                       [](char32_t value, uint64_t range) { return value < (range >> 29); });
  if (after == ranges.begin()) {
    return 0;
  }
  const uint64_t range = *(after - 1);
  return c <= ((range >> 8) & kPartMask) ? static_cast<uint8_t>(range) : uint8_t{0};
}

// 0 when the two do not compose.
char32_t composed(char32_t first, char32_t second) {
  if (first - kLeadBase < kLeadCount && second - kVowelBase < kVowelCount) {
    return kSyllableBase +
           ((first - kLeadBase) * kVowelCount + (second - kVowelBase)) * kTrailCount;
  }
  if (first - kSyllableBase < kSyllableCount && (first - kSyllableBase) % kTrailCount == 0 &&
      second > kTrailBase && second - kTrailBase < kTrailCount) {
    return first + (second - kTrailBase);
  }
  constexpr uint64_t kBothMask = (uint64_t{1} << 42) - 1;
  const uint64_t key = static_cast<uint64_t>(first) << 21 | second;
  const std::span order(kCompositionOrder, kCompositionCount);
  const auto found = std::lower_bound(
      order.begin(), order.end(), key,
      [](uint16_t index, uint64_t value) { return (kCanonicalPairs[index] & kBothMask) < value; });
  if (first >= kRawByte || found == order.end() || (kCanonicalPairs[*found] & kBothMask) != key) {
    return 0;
  }
  return code_point_of(kCanonicalPairs[*found]);
}

// True for the second part of some composition that has class 0; marks are caught by their class.
bool may_join_backwards(char32_t c) {
  if (c - kVowelBase < kVowelCount || (c > kTrailBase && c - kTrailBase < kTrailCount)) {
    return true;
  }
  return std::binary_search(kJoiningStarters, kJoiningStarters + kJoiningStarterCount, c);
}

bool may_change(char32_t c) {
  if (c < 0x300 || (c >= 0x3400 && c < 0xA000)) {
    return false;  // of these the tables hold composites only, the commonest CJK not even those
  }
  if (combining_class_of(c) != 0) {
    return true;
  }
  const uint64_t* pair = decomposition_of(c);
  return pair != nullptr ? !is_composed(*pair) : may_join_backwards(c);
}

void decompose(char32_t c, std::vector<Element>& out) {
  const uint64_t* pair = c < kRawByte ? decomposition_of(c) : nullptr;
  if (pair == nullptr) {
    out.push_back({c, c < kRawByte ? combining_class_of(c) : uint8_t{0}});
    return;
  }
  decompose(first_of(*pair), out);  // at most four deep
  if (second_of(*pair) != 0) {
    decompose(second_of(*pair), out);
  }
}

// Stable, by class: a counting sort, so that a megabyte of marks takes no longer than another text.
void sort_marks(std::span<Element> marks) {
  const auto by_class = [](const Element& a, const Element& b) {
    return a.combining_class < b.combining_class;
  };
  if (std::is_sorted(marks.begin(), marks.end(), by_class)) {
    return;
  }
  std::array<size_t, 257> begins{};  // where the marks of each class go
  for (const Element& mark : marks) {
    ++begins[mark.combining_class + size_t{1}];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  const std::vector<Element> unsorted(marks.begin(), marks.end());
  for (const Element& mark : unsorted) {
    marks[begins[mark.combining_class]++] = mark;
  }
}

void order_marks(std::vector<Element>& elements) {
  const auto is_starter = [](const Element& e) { return e.combining_class == 0; };
  for (auto begin = elements.begin(); begin != elements.end();) {
    begin = std::find_if_not(begin, elements.end(), is_starter);
    const auto end = std::find_if(begin, elements.end(), is_starter);
    sort_marks({begin, end});
    begin = end;
  }
}

// Joins each character with the last starter before it unless one of the same or a higher class
// stands between them (UAX 15, "blocked").
void compose(std::vector<Element>& elements) {
  size_t kept = 0;
  size_t starter = elements.size();  // none yet
  uint8_t last_class = 0;
  for (const Element& element : elements) {
    const bool is_adjacent = starter + 1 == kept;
    if (starter < kept && (is_adjacent || last_class < element.combining_class)) {
      if (const char32_t joined = composed(elements[starter].value, element.value)) {
        elements[starter].value = joined;
        continue;
      }
    }
    if (element.combining_class == 0) {
      starter = kept;
    }
    last_class = element.combining_class;
    elements[kept++] = element;
  }
  elements.resize(kept);
}

}  // namespace

std::optional<std::string> to_nfc(std::string_view text) {
  bool changes = false;
  for (size_t i = 0; i < text.size() && !changes;) {
    // Below U+0300 nothing is reordered or joined: only lead bytes from 0xCC on need a look.
    if (static_cast<uint8_t>(text[i]) < 0xCC) {
      ++i;
      continue;
    }
    const CodePoint c = decode_code_point(text, i);
    changes = c.value != kInvalidCodePoint && may_change(c.value);
    i += c.length;
  }
  if (!changes) {
    return std::nullopt;
  }
  std::vector<Element> elements;
  elements.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_code_point(text, i);
    const bool is_valid = c.value != kInvalidCodePoint;
    decompose(is_valid ? c.value : kRawByte | static_cast<uint8_t>(text[i]), elements);
    i += c.length;
  }
  order_marks(elements);
  compose(elements);
  std::string out;
  out.reserve(text.size());
  for (const Element& element : elements) {
    if (element.value >= kRawByte) {
      out.push_back(static_cast<char>(element.value & 0xFF));
    } else {
      append_utf8(out, element.value);
    }
  }
  if (out == text) {  // the first look is conservative
    return std::nullopt;
  }
  return out;
}

}  // namespace baton::tokenizer
