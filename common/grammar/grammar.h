#pragma once

// What a request may ask of its output's form, and the compiled form that workers share.

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/recognizer.h"
#include "common/grammar/vocabulary_trie.h"

namespace baton::grammar {

// Values go over the wire and are never renumbered.
enum class Kind : uint8_t {
  kNone = 0,
  kJsonObject = 1,       // no text
  kJsonSchema = 2,       // the schema
  kRegex = 3,            // an expression that the whole output matches
  kEbnf = 4,             // ebnf.h
  kChoice = 5,           // one text or the other
  kEbnfWithSchemas = 6,  // EBNF whose rules schema-1, schema-2, ... are the JSON schemas after it
};

struct Source {
  Kind kind = Kind::kNone;
  std::vector<std::string> texts;

  friend bool operator==(const Source&, const Source&) = default;
};

inline constexpr size_t kMaxSourceBytes = 256 << 10;

// Errors as those of the readers (json_schema.h, regex.h, ebnf.h) and of the automaton: all of them
// are the request's. Usually a few ms, for the largest grammars tens.
Result<Automaton> compile(const Source& source);

// Finds or makes the compiled form when it is first needed.
using MakeRecognizer = std::function<Result<std::shared_ptr<Recognizer>>()>;

using MakeVocabulary = std::function<Result<std::shared_ptr<const VocabularyTrie>>()>;
// The tokens of a model file that text is made of: all but control and unknown ones.
MakeVocabulary vocabulary_of_model(std::string path);

// Compiled grammars by their source, the last used first. Thread-safe; a source that is new is
// compiled while others wait.
class GrammarCache {
 public:
  static constexpr size_t kMaxGrammars = 16;

  // `make_vocabulary` is called when the first grammar is asked for: most processes never are, and
  // it takes about 100 ms.
  explicit GrammarCache(MakeVocabulary make_vocabulary)
      : make_vocabulary_(std::move(make_vocabulary)) {}

  // Errors of compile() and of the vocabulary.
  Result<std::shared_ptr<Recognizer>> get(const Source& source) EXCLUDES(mutex_);

 private:
  struct Entry {
    Source source;
    std::shared_ptr<Recognizer> recognizer;
  };

  const MakeVocabulary make_vocabulary_;
  Mutex mutex_;
  std::shared_ptr<const VocabularyTrie> vocabulary_ GUARDED_BY(mutex_);
  std::list<Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace baton::grammar
