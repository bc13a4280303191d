#include "router/api/prompt_echo.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/http/error.h"
#include "common/tokenizer/utf8.h"

namespace baton::router {

void append_logprob(std::string& out, float logprob) {
  if (!std::isfinite(logprob)) {
    out += "-9999.0";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), logprob).ptr;
  out.append(text, end);
}

size_t characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  }
  return count;
}

void TokenWriter::append(std::string& out, TokenId id) const {
  if (request_.tokens_as_ids) {
    out += "\"token_id:" + std::to_string(id) + '"';
    return;
  }
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (request_.chat || tokenizer::is_valid_utf8(bytes)) {
    http::append_json_string(out, bytes);
    return;
  }
  // Parts of characters stay apart, also as keys.
  out += "\"bytes:";
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += "\\\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  out += '"';
}

size_t TokenWriter::shown_characters(TokenId id) const {
  const bool hidden = request_.skip_special_tokens && tokenizer_.is_special(id);
  return hidden ? 0 : characters(tokenizer_.token_bytes(id));
}

bool TokenWriter::begins_with_hidden_space(TokenId id) const {
  return tokenizer_.strips_first_space() && tokenizer_.token_bytes(id).starts_with(' ');
}

void LogprobLists::add(TokenId id, const wire::TokenLogprob* logprob, size_t top) {
  const char* comma = empty() ? "" : ",";
  tokens_ += comma;
  writer_.append(tokens_, id);
  offsets_ += comma + std::to_string(text_offset_);
  text_offset_ += writer_.shown_characters(id);
  values_ += comma;
  tops_ += comma;
  if (logprob == nullptr) {
    values_ += "null";
    tops_ += "null";
    return;
  }
  append_logprob(values_, logprob->logprob);
  // The token itself first, in the same digits: clients compare the two.
  tops_ += '{';
  writer_.append(tops_, id);
  tops_ += ':';
  append_logprob(tops_, logprob->logprob);
  for (size_t i = 0; i < std::min(top, logprob->top.size()); ++i) {
    const auto& [other, value] = logprob->top[i];
    if (other != id) {
      tops_ += ',';
      writer_.append(tops_, other);
      tops_ += ':';
      append_logprob(tops_, value);
    }
  }
  tops_ += '}';
}

void LogprobLists::add_prompt(const PromptView& view, size_t top) {
  const std::vector<TokenId>& ids = view.prompt->tokens;
  const size_t end = text_offset_ + characters(view.prompt->text);
  const size_t begin = text_offset_;
  for (size_t i = 0; i < ids.size(); ++i) {
    text_offset_ = std::min(text_offset_, end);
    const bool first = text_offset_ == begin && !view.prompt->text.starts_with(' ');
    const bool known = i > 0 && i <= view.logprobs.size();
    add(ids[i], known ? &view.logprobs[i - 1] : nullptr, top);
    if (first && text_offset_ > begin && writer_.begins_with_hidden_space(ids[i])) {
      --text_offset_;
    }
  }
  // Where the text is not what the tokens' bytes say (bytes that are no UTF-8), it is right again
  // from here on.
  text_offset_ = end;
}

std::string LogprobLists::json() const {
  return "{\"tokens\":[" + tokens_ + "],\"token_logprobs\":[" + values_ + "],\"top_logprobs\":[" +
         tops_ + "],\"text_offset\":[" + offsets_ + "]}";
}

void append_prompt_logprobs(std::string& out, const PromptView& view, size_t top,
                            const tokenizer::Tokenizer& tokenizer) {
  const auto entry = [&out, &tokenizer](TokenId id, float logprob, int64_t rank) {
    out += '"' + std::to_string(id) + "\":{\"logprob\":";
    append_logprob(out, logprob);
    out += ",\"rank\":" + std::to_string(rank) + ",\"decoded_token\":";
    http::append_json_string(out, tokenizer.token_bytes(id));
    out += '}';
  };
  const std::vector<TokenId>& ids = view.prompt->tokens;
  out += "[null";
  for (size_t i = 0; i < view.logprobs.size() && i + 1 < ids.size(); ++i) {
    const wire::TokenLogprob& logprob = view.logprobs[i];
    out += ",{";
    entry(ids[i + 1], logprob.logprob, logprob.rank);
    for (size_t k = 0; k < std::min(top, logprob.top.size()); ++k) {
      if (logprob.top[k].first != ids[i + 1]) {
        out += ',';
        entry(logprob.top[k].first, logprob.top[k].second, static_cast<int64_t>(k) + 1);
      }
    }
    out += '}';
  }
  out += ']';
}

}  // namespace baton::router
