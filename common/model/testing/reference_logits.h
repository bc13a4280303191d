#pragma once

// Reads tests/data/models/NAME.logits (format: README.md there). For tests: a broken file is an
// empty result.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace baton::model {

struct ReferenceRow {
  int position = 0;
  std::vector<float> logits;  // [vocab]
};

struct ReferencePrompt {
  std::vector<int32_t> tokens;
  std::vector<ReferenceRow> rows;
};

inline std::vector<ReferencePrompt> read_reference_logits(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  size_t at = 0;
  bool good = true;
  const auto copy = [&](void* to, size_t size) {
    good = good && size <= bytes.size() - at;
    if (good) {
      std::memcpy(to, bytes.data() + at, size);
      at += size;
    }
  };
  const auto number = [&] {
    uint32_t value = 0;
    copy(&value, sizeof(value));
    return value;
  };
  const bool known = number() == 0x54474C42 && number() == 1;  // "BLGT"
  const uint32_t vocab = number();
  std::vector<ReferencePrompt> prompts(known && good ? number() : 0);
  for (ReferencePrompt& prompt : prompts) {
    prompt.tokens.resize(number());
    prompt.rows.resize(number());
    copy(prompt.tokens.data(), prompt.tokens.size() * sizeof(int32_t));
    for (ReferenceRow& row : prompt.rows) {
      row.position = static_cast<int>(number());
      row.logits.resize(vocab);
      copy(row.logits.data(), vocab * sizeof(float));
    }
  }
  return good && at == bytes.size() ? prompts : std::vector<ReferencePrompt>();
}

}  // namespace baton::model
