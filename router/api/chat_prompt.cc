#include "router/api/chat_prompt.h"

#include <algorithm>
#include <charconv>

#include "common/tokenizer/chat_template/value_json.h"
#include "router/tool_calls/history.h"

namespace baton::router {
namespace {

// A piece of user text that reads like a special token is replaced by mark, number, mark while the
// template runs. U+F8FF lies in the private use area; a user's own one is hidden like a token.
constexpr std::string_view kMark = "\xEF\xA3\xBF";

std::string placeholder(size_t number) {
  return std::string(kMark) + std::to_string(number) + std::string(kMark);
}

// Where the last message ends that an answer goes on from: a mark that no text has (those of users
// are hidden), and a space, whose loss tells that the template trims contents.
constexpr std::string_view kCut = "\xEF\xA3\xBF\xEF\xA3\xBE ";

Status cut_at_mark(std::string& rendered) {
  const std::string_view mark = kCut.substr(0, kCut.size() - 1);
  const size_t at = rendered.rfind(mark);
  if (at == std::string::npos) {
    return invalid_argument(
        "the chat template does not print the last message, so that it cannot "
        "be continued");
  }
  const bool trims = !std::string_view(rendered).substr(at).starts_with(kCut);
  rendered.erase(at);
  if (trims) {
    rendered.erase(rendered.find_last_not_of(" \n\t\r") + 1);
  }
  return Status();
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

boost::json::array plain_messages(const boost::json::value& messages) {
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

Result<ChatPrompt> ChatPrompt::create(const tokenizer::Tokenizer& tokenizer, Options options) {
  ChatPrompt prompt(tokenizer);
  prompt.find_special_texts();
  if (!tokenizer.chat_template().empty()) {
    BATON_ASSIGN_OR_RETURN(prompt.plain_, prompt.study(tokenizer.chat_template(), options));
  }
  if (!tokenizer.tool_template().empty()) {
    BATON_ASSIGN_OR_RETURN(prompt.with_tools_, prompt.study(tokenizer.tool_template(), options));
  }
  return prompt;
}

void ChatPrompt::find_special_texts() {
  std::vector<std::pair<std::string, TokenId>> texts = {{std::string(kMark), 0}};
  for (size_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer_->is_special(token)) {
      texts.emplace_back(tokenizer_->token_text(token), token);
    }
  }
  special_ = tokenizer::SpecialTokenMatcher(texts);
}

Result<ChatPrompt::Studied> ChatPrompt::study(const std::string& source,
                                              const Options& options) const {
  BATON_ASSIGN_OR_RETURN(chat_template::ChatTemplate chat,
                         chat_template::ChatTemplate::parse(source));
  TemplateTraits traits =
      traits_of(chat, text_of(tokenizer_->bos_id()), text_of(tokenizer_->eos_id()));
  const std::optional<CallForm> seen = call_form_in(source);
  AnswerForm form;
  form.call_form = seen.value_or(CallForm::kHermes);
  switch (options.tool_format) {
    case config::ToolFormat::kAuto:
      traits.has_tools = traits.has_tools && seen.has_value();
      break;
    case config::ToolFormat::kHermes:
      form.call_form = CallForm::kHermes;
      break;
    case config::ToolFormat::kLlama3:
      form.call_form = CallForm::kLlama3;
      break;
    case config::ToolFormat::kMistral:
      form.call_form = CallForm::kMistral;
      break;
  }
  form.single_call = traits.has_tools && traits.single_call;
  form.has_reasoning = options.reasoning == config::Reasoning::kSplit ||
                       (options.reasoning == config::Reasoning::kAuto &&
                        source.find(kThinkEnd) != std::string::npos);
  return Studied{std::move(chat), traits, std::move(form)};
}

std::string ChatPrompt::text_of(std::optional<TokenId> id) const {
  return id ? std::string(tokenizer_->token_text(*id)) : std::string();
}

// Length of the special token, or mark, that `text` begins with; 0 for none.
size_t ChatPrompt::special_at(std::string_view text) const {
  const auto match = special_.match_at(text, 0);
  return match ? match->end : 0;
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
    const std::vector<TokenId> ids = tokenizer_->encode(
        plain, {.parse_special = false,
                .after = out.empty() ? tokenizer::EncodeOptions::After::kNothing
                                     : tokenizer::EncodeOptions::After::kSpecialToken});
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

Result<chat_template::RenderInput> ChatPrompt::input_of(const ApiRequest& request,
                                                        const Studied& studied,
                                                        std::vector<std::string>& hidden) const {
  const boost::json::array& tools = request.tools.offered;
  boost::json::array plain = plain_messages(request.messages);
  boost::json::value messages = messages_for(plain, tools, studied.traits, studied.form.call_form);
  const auto shown = [&](const boost::json::value& value) {
    return request.parse_special ? value : hide_special(value, hidden);
  };
  messages = shown(messages);
  if (request.continue_final_message) {
    boost::json::object& last = messages.get_array().back().get_object();
    last["content"] = std::string(last["content"].get_string()) + std::string(kCut);
  }
  chat_template::RenderInput input;
  BATON_ASSIGN_OR_RETURN(input.messages, chat_template::value_from_json(messages));
  if (!tools.empty() && studied.traits.has_tools) {
    BATON_ASSIGN_OR_RETURN(input.tools, chat_template::value_from_json(shown(tools)));
  }
  input.add_generation_prompt = request.add_generation_prompt;
  input.bos_token = text_of(tokenizer_->bos_id());
  input.eos_token = text_of(tokenizer_->eos_id());
  for (const auto& argument : request.template_arguments) {
    BATON_ASSIGN_OR_RETURN(chat_template::Value value,
                           chat_template::value_from_json(shown(argument.value())));
    input.extra.emplace_back(std::string(argument.key()), std::move(value));
  }
  return input;
}

// What the end of the prompt says of the text that follows.
AnswerForm ChatPrompt::answer_form(const ApiRequest& request, AnswerForm form,
                                   std::string_view rendered) const {
  form.has_calls = request.tools.may_call();
  form.shows_reasoning = request.include_reasoning;
  rendered = rendered.substr(0, rendered.find_last_not_of(" \n") + 1);
  if (form.has_reasoning && rendered.ends_with(kThinkEnd)) {
    form.has_reasoning = false;  // the template says that there is none
  }
  // An answer that has its form from the first token on has no room for reasoning.
  form.begins_in_reasoning =
      form.has_reasoning && rendered.ends_with(kThinkBegin) && request.sampling.grammar_kind == 0;
  for (const std::string_view marker : form_markers(form.call_form)) {
    const bool used =
        marker == kThinkBegin || marker == kThinkEnd ? form.has_reasoning : form.has_calls;
    const std::optional<TokenId> id = tokenizer_->find_token(marker);
    if (used && id && tokenizer_->is_special(*id)) {
      form.shown_ids.push_back(*id);
    }
  }
  return form;
}

Result<ChatTurn> ChatPrompt::turn(const ApiRequest& request, std::chrono::sys_seconds now) const {
  const bool by_tools = with_tools_ && (!request.tools.offered.empty() || !plain_);
  const std::optional<Studied>& studied = by_tools ? with_tools_ : plain_;
  if (!studied) {
    return unsupported("the model file has no chat template; use /v1/completions");
  }
  std::vector<std::string> hidden;
  BATON_ASSIGN_OR_RETURN(chat_template::RenderInput input, input_of(request, *studied, hidden));
  input.now = now;
  BATON_ASSIGN_OR_RETURN(std::string rendered, studied->chat.render(input));
  if (request.continue_final_message) {
    BATON_RETURN_IF_ERROR(cut_at_mark(rendered));
  }
  ChatTurn turn;
  turn.answer = answer_form(request, studied->form, rendered);
  turn.tokens = encode(rendered, hidden);
  if (request.add_special_tokens && tokenizer_->adds_bos() && tokenizer_->bos_id()) {
    turn.tokens.insert(turn.tokens.begin(), *tokenizer_->bos_id());
  }
  // Where a control token begins calls, no grammar can ask for it: the prompt ends with it.
  const std::optional<TokenId> marker = tokenizer_->find_token(call_marker(turn.answer.call_form));
  if (request.tools.must_call() && turn.answer.call_form == CallForm::kMistral &&
      !turn.answer.begins_in_reasoning && marker && tokenizer_->is_special(*marker)) {
    turn.tokens.push_back(*marker);
    turn.answer.begins_in_calls = true;
    turn.answer.has_reasoning = false;
  }
  return turn;
}

}  // namespace baton::router
