#include "router/api/chat_prompt.h"

#include <algorithm>
#include <charconv>

#include "common/tokenizer/chat_template/value_json.h"

namespace baton::router {
namespace {

// A piece of user text that reads like a special token is replaced by mark, number, mark while the
// template runs. U+F8FF lies in the private use area; a user's own one is hidden like a token.
constexpr std::string_view kMark = "\xEF\xA3\xBF";

std::string placeholder(size_t number) {
  return std::string(kMark) + std::to_string(number) + std::string(kMark);
}

// Templates of text models expect a string: text parts are joined by line feeds, as vLLM does.
boost::json::value plain_content(const boost::json::value& content) {
  if (content.is_null()) {
    return "";
  }
  if (!content.is_array()) {
    return content;
  }
  std::string text;
  for (const boost::json::value& part : content.get_array()) {
    text += text.empty() ? "" : "\n";
    text += std::string_view(part.at("text").get_string());
  }
  return boost::json::value(text);
}

boost::json::value plain_messages(const boost::json::value& messages) {
  boost::json::array out;
  for (const boost::json::value& message : messages.get_array()) {
    boost::json::object copy = message.get_object();
    if (boost::json::value* content = copy.if_contains("content")) {
      *content = plain_content(*content);
    }
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace

Result<ChatPrompt> ChatPrompt::create(const tokenizer::Tokenizer& tokenizer) {
  ChatPrompt prompt(tokenizer);
  if (!tokenizer.chat_template().empty()) {
    BATON_ASSIGN_OR_RETURN(chat_template::ChatTemplate parsed,
                           chat_template::ChatTemplate::parse(tokenizer.chat_template()));
    prompt.template_ = std::move(parsed);
  }
  for (size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer.is_special(token) && !tokenizer.token_text(token).empty()) {
      prompt.special_.emplace_back(tokenizer.token_text(token));
    }
  }
  prompt.begins_special_[static_cast<unsigned char>(kMark[0])] = true;
  for (const std::string& token : prompt.special_) {
    prompt.begins_special_[static_cast<unsigned char>(token[0])] = true;
  }
  std::sort(prompt.special_.begin(), prompt.special_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return prompt;
}

// Length of the special token, or mark, that `text` begins with; 0 for none.
size_t ChatPrompt::special_at(std::string_view text) const {
  if (!begins_special_[static_cast<unsigned char>(text[0])]) {
    return 0;
  }
  if (text.starts_with(kMark)) {
    return kMark.size();
  }
  for (const std::string& token : special_) {
    if (text.starts_with(token)) {
      return token.size();
    }
  }
  return 0;
}

boost::json::value ChatPrompt::hide_special(const boost::json::value& value,
                                            std::vector<std::string>& hidden) const {
  if (value.is_array()) {
    boost::json::array out;
    for (const boost::json::value& item : value.get_array()) {
      out.push_back(hide_special(item, hidden));
    }
    return out;
  }
  if (value.is_object()) {
    boost::json::object out;
    for (const auto& field : value.get_object()) {
      const boost::json::value key = hide_special(boost::json::value(field.key()), hidden);
      out[key.get_string()] = hide_special(field.value(), hidden);
    }
    return out;
  }
  if (!value.is_string()) {
    return value;
  }
  const std::string_view text = value.get_string();
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = special_at(text.substr(i));
    if (length == 0) {
      out += text[i++];
      continue;
    }
    out += placeholder(hidden.size());
    hidden.emplace_back(text.substr(i, length));
    i += length;
  }
  return boost::json::value(out);
}

// The special tokens of the template cut the text; what lies between is plain, with the hidden
// pieces put back before it is tokenised.
std::vector<TokenId> ChatPrompt::encode(std::string_view rendered,
                                        const std::vector<std::string>& hidden) const {
  if (hidden.empty()) {
    return tokenizer_->encode(rendered, {.add_bos = false, .parse_special = true});
  }
  std::vector<TokenId> out;
  std::string plain;
  const auto flush = [&] {
    const std::vector<TokenId> ids =
        tokenizer_->encode(plain, {.add_bos = false, .parse_special = false});
    out.insert(out.end(), ids.begin(), ids.end());
    plain.clear();
  };
  for (size_t i = 0; i < rendered.size();) {
    const std::string_view rest = rendered.substr(i);
    const size_t length = special_at(rest);
    if (length == 0) {
      plain += rendered[i++];
    } else if (!rest.starts_with(kMark)) {
      flush();
      const std::vector<TokenId> id =
          tokenizer_->encode(rest.substr(0, length), {.add_bos = false, .parse_special = true});
      out.insert(out.end(), id.begin(), id.end());
      i += length;
    } else {
      size_t number = 0;
      const char* digits = rest.data() + kMark.size();
      const auto parsed = std::from_chars(digits, rest.data() + rest.size(), number);
      const auto end = static_cast<size_t>(parsed.ptr - rest.data());
      if (parsed.ec == std::errc() && number < hidden.size() &&
          rest.substr(end).starts_with(kMark)) {
        plain += hidden[number];
        i += end + kMark.size();
      } else {
        i += kMark.size();  // the template cut a placeholder apart
      }
    }
  }
  flush();
  return out;
}

Result<std::vector<TokenId>> ChatPrompt::tokens(const ApiRequest& request,
                                                std::chrono::sys_seconds now) const {
  if (!template_) {
    return unsupported("the model file has no chat template; use /v1/completions");
  }
  std::vector<std::string> hidden;
  boost::json::value messages = plain_messages(request.messages);
  if (!request.parse_special) {
    messages = hide_special(messages, hidden);
  }
  chat_template::RenderInput input;
  BATON_ASSIGN_OR_RETURN(input.messages, chat_template::value_from_json(messages));
  input.add_generation_prompt = request.add_generation_prompt;
  const auto text_of = [this](std::optional<TokenId> id) {
    return id ? std::string(tokenizer_->token_text(*id)) : std::string();
  };
  input.bos_token = text_of(tokenizer_->bos_id());
  input.eos_token = text_of(tokenizer_->eos_id());
  for (const auto& argument : request.template_arguments) {
    const boost::json::value shown =
        request.parse_special ? argument.value() : hide_special(argument.value(), hidden);
    BATON_ASSIGN_OR_RETURN(chat_template::Value value, chat_template::value_from_json(shown));
    input.extra.emplace_back(std::string(argument.key()), std::move(value));
  }
  input.now = now;
  BATON_ASSIGN_OR_RETURN(const std::string rendered, template_->render(input));
  return encode(rendered, hidden);
}

}  // namespace baton::router
