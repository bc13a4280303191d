#include "common/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "common/grammar/ebnf.h"
#include "common/grammar/json_schema.h"
#include "common/grammar/json_text.h"
#include "common/grammar/regex.h"
#include "common/tokenizer/load_tokenizer.h"

namespace baton::grammar {
namespace {

void read_json_object(Expressions& out) {
  const int32_t root = out.new_rule();
  JsonText text(out);
  out.define(root, text.any_object());
}

Status read_choices(const std::vector<std::string>& texts, Expressions& out) {
  const int32_t root = out.new_rule();
  out.define(root, out.any_of(texts));
  return Status();
}

Status read_whole_regex(const std::string& text, Expressions& out) {
  const int32_t root = out.new_rule();
  BATON_ASSIGN_OR_RETURN(const ExprId body, read_regex(text, {}, out));
  out.define(root, body);
  return Status();
}

Status read(const Source& source, Expressions& out) {
  size_t bytes = 0;
  for (const std::string& text : source.texts) {
    bytes += text.size();
  }
  if (bytes > kMaxSourceBytes) {
    return invalid_argument("the grammar has " + std::to_string(bytes) + " bytes, more than " +
                            std::to_string(kMaxSourceBytes));
  }
  if (source.kind == Kind::kJsonObject) {
    read_json_object(out);
    return Status();
  }
  if (source.texts.empty()) {
    return invalid_argument("the grammar has no text");
  }
  switch (source.kind) {
    case Kind::kJsonSchema:
      return read_json_schema(source.texts[0], out);
    case Kind::kRegex:
      return read_whole_regex(source.texts[0], out);
    case Kind::kEbnf:
      return read_ebnf(source.texts[0], out);
    case Kind::kChoice:
      return read_choices(source.texts, out);
    case Kind::kEbnfWithSchemas:
      return read_ebnf_with_schemas(source.texts[0], std::span(source.texts).subspan(1), out);
    case Kind::kNone:
    case Kind::kJsonObject:
      break;
  }
  return invalid_argument("unknown kind of grammar");
}

}  // namespace

Result<Automaton> compile(const Source& source) {
  Expressions expressions;
  BATON_RETURN_IF_ERROR(read(source, expressions));
  return Automaton::build(expressions);
}

MakeVocabulary vocabulary_of_model(std::string path) {
  return [path = std::move(path)]() -> Result<std::shared_ptr<const VocabularyTrie>> {
    BATON_ASSIGN_OR_RETURN(const tokenizer::Tokenizer tokens, tokenizer::load_tokenizer(path));
    return std::make_shared<const VocabularyTrie>(
        static_cast<int>(tokens.vocab_size()), [&tokens](TokenId id) {
          return tokens.is_special(id) ? std::string_view() : tokens.token_bytes(id);
        });
  };
}

Result<std::shared_ptr<Recognizer>> GrammarCache::get(const Source& source) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.source == source; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return found->recognizer;
  }
  if (vocabulary_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(vocabulary_, make_vocabulary_());
  }
  BATON_ASSIGN_OR_RETURN(Automaton automaton, compile(source));
  entries_.push_front({source, std::make_shared<Recognizer>(std::move(automaton), vocabulary_)});
  if (entries_.size() > kMaxGrammars) {
    entries_.pop_back();
  }
  return entries_.front().recognizer;
}

}  // namespace baton::grammar
