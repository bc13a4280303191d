// Grammars of hostile clients. The first byte chooses the kind; after the first 0 byte comes text
// that the grammar then reads. What compiles must answer masks, within its bounds.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/grammar/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace baton::grammar;
  if (size < 2 || size > 4096) {
    return 0;
  }
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = std::min(rest.find('\0'), rest.size());
  const Source source{static_cast<Kind>(data[0] % 7), {std::string(rest.substr(0, cut))}};
  baton::Result<Automaton> automaton = compile(source);
  if (!automaton.ok()) {
    return 0;
  }
  static const auto kBytes = std::make_shared<const VocabularyTrie>(256, [](baton::TokenId id) {
    static const std::string kAll = [] {
      std::string all;
      for (int byte = 0; byte < 256; ++byte) {
        all += static_cast<char>(byte);
      }
      return all;
    }();
    return std::string_view(kAll).substr(static_cast<size_t>(id), 1);
  });
  Recognizer recognizer(std::move(*automaton), kBytes);
  Recognizer::Place place = recognizer.start();
  for (const char c : rest.substr(cut)) {
    const auto mask = recognizer.mask(place);
    const auto next = recognizer.advance(place, std::string_view(&c, 1));
    if (!mask || !mask->ok() || !next || !next->ok()) {
      break;
    }
    const auto byte = static_cast<uint8_t>(c);
    BATON_CHECK(((**mask)->words[byte / 64] >> (byte % 64) & 1) != 0,
                "a byte was read that the mask does not allow");
    place = **next;
  }
  return 0;
}
