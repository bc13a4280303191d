#pragma once

// For tests: grammars over a vocabulary of single bytes, asked whether they accept a text.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/grammar/grammar.h"

namespace baton::grammar {

// Token i is byte i; then the texts given.
inline std::shared_ptr<const VocabularyTrie> byte_vocabulary(std::vector<std::string> more = {}) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) {
    texts.emplace_back(1, static_cast<char>(byte));
  }
  texts.insert(texts.end(), more.begin(), more.end());
  return std::make_shared<VocabularyTrie>(
      static_cast<int>(texts.size()),
      [&texts](TokenId id) -> std::string_view { return texts[static_cast<size_t>(id)]; });
}

// Whether all of `text` is a text of the grammar; the error if the grammar is none.
inline Result<bool> accepts(const Source& source, std::string_view text) {
  BATON_ASSIGN_OR_RETURN(Automaton automaton, compile(source));
  Recognizer recognizer(std::move(automaton), byte_vocabulary());
  const auto place = recognizer.advance(recognizer.start(), text);
  return place.has_value() && place->ok() && (*place)->may_end;
}

// A pseudo-random text of the grammar, of at most about `limit` bytes when it can end there.
inline std::string sample_text(const Source& source, uint64_t seed, size_t limit) {
  Result<Automaton> automaton = compile(source);
  Recognizer recognizer(std::move(*automaton), byte_vocabulary());
  Recognizer::Place place = recognizer.start();
  std::string text;
  while (!place.must_end && text.size() < 4 * limit) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    if (place.may_end && (text.size() >= limit || seed >> 62 == 0)) {
      break;
    }
    const auto mask = recognizer.mask(place);
    std::vector<char> next;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (((**mask)->words[byte / 64] >> (byte % 64) & 1) != 0) {
        next.push_back(static_cast<char>(byte));
      }
    }
    // Texts that have grown long close what is open.
    char chosen = next[(seed >> 33) % next.size()];
    for (const char close : text.size() >= limit ? std::string_view("\"}]") : "") {
      for (const char c : next) {
        chosen = c == close ? c : chosen;
      }
    }
    text += chosen;
    place = **recognizer.advance(place, std::string_view(&chosen, 1));
  }
  return text;
}

}  // namespace baton::grammar
