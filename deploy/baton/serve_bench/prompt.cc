#include "deploy/baton/serve_bench/prompt.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/random.h"
#include "common/http/error.h"

namespace baton::serve_bench {
namespace {

// One token each, with the space before it, in the vocabularies of GPT-2, Llama 2 and 3, Qwen 3,
// Gemma 3, DeepSeek V3 and GPT-4o. 256 of them: a byte of randomness chooses one.
constexpr std::array<std::string_view, 256> kWords = {
    "about",   "act",     "add",     "after",   "again",   "all",     "allow",   "also",   "and",
    "another", "any",     "are",     "around",  "art",     "back",    "because", "been",   "before",
    "being",   "best",    "between", "book",    "both",    "break",   "build",   "but",    "call",
    "can",     "car",     "care",    "case",    "change",  "check",   "child",   "class",  "come",
    "const",   "cor",     "could",   "count",   "create",  "current", "data",    "day",    "del",
    "den",     "design",  "develop", "did",     "direct",  "does",    "down",    "during", "each",
    "else",    "end",     "even",    "event",   "every",   "fact",    "false",   "few",    "field",
    "file",    "final",   "find",    "first",   "follow",  "for",     "form",    "found",  "free",
    "from",    "game",    "get",     "going",   "good",    "great",   "group",   "had",    "hand",
    "has",     "have",    "head",    "help",    "her",     "here",    "high",    "him",    "his",
    "home",    "how",     "hum",     "inter",   "into",    "its",     "just",    "key",    "know",
    "last",    "left",    "let",     "level",   "life",    "like",    "line",    "list",   "little",
    "local",   "log",     "long",    "look",    "made",    "main",    "make",    "man",    "many",
    "mark",    "men",     "met",     "method",  "model",   "month",   "more",    "most",   "mov",
    "much",    "must",    "name",    "need",    "new",     "next",    "non",     "not",    "now",
    "number",  "object",  "off",     "old",     "one",     "only",    "open",    "order",  "other",
    "our",     "out",     "over",    "own",     "part",    "pass",    "path",    "pay",    "people",
    "per",     "person",  "place",   "play",    "point",   "post",    "power",   "pres",   "print",
    "private", "process", "product", "program", "project", "put",     "quest",   "read",   "real",
    "really",  "report",  "require", "rest",    "result",  "return",  "right",   "run",    "said",
    "same",    "second",  "see",     "set",     "she",     "should",  "show",    "sign",   "size",
    "small",   "some",    "stand",   "start",   "state",   "still",   "string",  "such",   "super",
    "support", "system",  "take",    "team",    "test",    "than",    "that",    "the",    "their",
    "them",    "then",    "there",   "these",   "they",    "things",  "think",   "this",   "those",
    "three",   "through", "time",    "too",     "top",     "true",    "turn",    "two",    "type",
    "under",   "use",     "used",    "user",    "using",   "value",   "very",    "view",   "want",
    "was",     "water",   "way",     "week",    "well",    "were",    "what",    "when",   "where",
    "which",   "while",   "who",     "will",    "with",    "without", "work",    "world",  "would",
    "year",    "years",   "you",     "your",
};

void append_words(std::string& out, int words, uint64_t seed) {
  SeededRandom random(seed);
  uint64_t bytes = 0;
  for (int i = 0; i < words; ++i) {
    bytes = i % 8 == 0 ? random.next() : bytes >> 8;
    if (!out.empty()) {
      out += ' ';
    }
    out += kWords[bytes & 0xFF];
  }
}

// Spreads neighbouring numbers over the seeds.
uint64_t mixed(uint64_t salt, uint64_t number) {
  return SeededRandom(salt ^ (number * 0x9E3779B97F4A7C15)).next();
}

constexpr uint64_t kBlockStream = 0x626c6f636b73;

}  // namespace

int TokenScale::words_for(int tokens) const {
  return std::max(1, static_cast<int>(std::lround((tokens - overhead) / per_word)));
}

std::string PromptMaker::text(const PlannedRequest& request, uint64_t number,
                              const TokenScale& scale) const {
  std::string out;
  int left = scale.words_for(request.input_tokens);
  out.reserve(static_cast<size_t>(left) * 6);
  const TokenScale inner{scale.per_word, 0};
  for (const uint64_t block : request.blocks) {
    const int words = std::min(left, inner.words_for(kTraceBlockTokens));
    append_words(out, words, mixed(salt_ ^ kBlockStream, block));
    left -= words;
  }
  append_words(out, left, mixed(salt_, number));
  return out;
}

std::string Dialect::body(std::string_view prompt, int output_tokens) const {
  std::string out = "{\"model\":";
  out.reserve(prompt.size() + 256);
  http::append_json_string(out, model);
  out += chat ? ",\"messages\":[{\"role\":\"user\",\"content\":\"" : ",\"prompt\":\"";
  out += prompt;  // words and spaces: nothing to escape
  out += chat ? "\"}]" : "\"";
  out += ",\"max_tokens\":" + std::to_string(output_tokens) + ",\"temperature\":0,\"stream\":true";
  out += ignore_eos ? ",\"ignore_eos\":true" : "";
  out += include_usage ? ",\"stream_options\":{\"include_usage\":true}" : "";
  return out + "}";
}

}  // namespace baton::serve_bench
