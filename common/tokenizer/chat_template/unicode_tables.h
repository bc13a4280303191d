#pragma once

// Generated tables (make_unicode_tables.py), sorted by code point.

#include <cstddef>
#include <cstdint>

namespace baton::chat_template {

// Code points first, first + step, ... last map to themselves + delta.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t delta;
};
// UTF-8 forms of a code point whose mapping is longer or whose title form is its own.
struct SpecialCase {
  uint32_t code_point;
  const char* lower;
  const char* upper;
  const char* title;
};
struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

extern const CaseRun kLowerRuns[];
extern const size_t kLowerRunsSize;
extern const CaseRun kUpperRuns[];
extern const size_t kUpperRunsSize;
extern const SpecialCase kSpecialCases[];
extern const size_t kSpecialCasesSize;
extern const CodePointRange kUnprintable[];
extern const size_t kUnprintableSize;

}  // namespace baton::chat_template
