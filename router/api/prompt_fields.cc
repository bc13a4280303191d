#include "router/api/prompt_fields.h"

#include <algorithm>
#include <climits>

namespace baton::router {
namespace {

constexpr size_t kMaxPrompts = 256;
constexpr size_t kMaxSaltBytes = 1024;
constexpr int kMaxLogprobs = 20;

Prompt text_prompt(const ServedModel& model, std::string_view text, bool add_special,
                   bool parse_special) {
  const tokenizer::Tokenizer& vocab = *model.tokenizer;
  bool bos = add_special && vocab.adds_bos();
  if (bos && parse_special && vocab.bos_id() &&
      text.starts_with(vocab.token_text(*vocab.bos_id()))) {
    bos = false;  // the text brings it along
  }
  Prompt prompt;
  prompt.tokens = vocab.encode(text, {.add_bos = bos, .parse_special = parse_special});
  prompt.text = text;
  return prompt;
}

// One prompt of ids; false if the list holds anything but ids of the vocabulary.
bool ids_prompt(const boost::json::array& list, size_t vocab, Prompt& prompt) {
  for (const boost::json::value& item : list) {
    if (!item.is_int64() || item.get_int64() < 0 ||
        static_cast<size_t>(item.get_int64()) >= vocab) {
      return false;
    }
    prompt.tokens.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return !prompt.tokens.empty();
}

}  // namespace

void read_prompt_options(FieldReader& fields, ApiRequest& request) {
  request.prompt_logprobs =
      static_cast<int>(fields.integer("prompt_logprobs", 0, kMaxLogprobs).value_or(-1));
  if (request.prompt_logprobs >= 0 && request.stream) {
    fields.fail("prompt_logprobs", "'prompt_logprobs' is not allowed with 'stream': true");
  }
  request.truncate_prompt =
      static_cast<int>(fields.integer("truncate_prompt_tokens", -1, INT_MAX).value_or(0));
  if (request.truncate_prompt == 0 && fields.raw("truncate_prompt_tokens") != nullptr) {
    fields.fail("truncate_prompt_tokens", "'truncate_prompt_tokens' must be -1 or at least 1");
  }
  request.cache_salt = fields.text("cache_salt").value_or("");
  if (request.cache_salt.size() > kMaxSaltBytes ||
      (request.cache_salt.empty() && fields.raw("cache_salt") != nullptr)) {
    fields.fail("cache_salt",
                "'cache_salt' must have 1 to " + std::to_string(kMaxSaltBytes) + " bytes");
  }
}

void read_prompts(FieldReader& fields, ApiRequest& request, const ServedModel& model) {
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  const boost::json::value* value = fields.raw("prompt");
  const size_t vocab = model.tokenizer->vocab_size();
  const std::string want =
      "'prompt' must be a string, a list of strings, a list of token ids from 0 to " +
      std::to_string(vocab - 1) + ", or a list of such lists, none of them empty";
  const auto wrong = [&fields, &want] { fields.fail("prompt", want); };
  if (value == nullptr) {
    wrong();
    return;
  }
  if (value->is_string()) {
    request.prompts.push_back(
        text_prompt(model, value->get_string(), add_special, request.parse_special));
  } else if (!value->is_array() || value->get_array().empty()) {
    wrong();
    return;
  } else if (value->get_array()[0].is_number()) {
    Prompt prompt;
    if (!ids_prompt(value->get_array(), vocab, prompt)) {
      wrong();
      return;
    }
    request.prompts.push_back(std::move(prompt));
  } else {
    const boost::json::array& list = value->get_array();
    if (list.size() > kMaxPrompts) {
      fields.fail("prompt", "'prompt' has more than " + std::to_string(kMaxPrompts) + " prompts");
      return;
    }
    for (const boost::json::value& item : list) {
      Prompt prompt;
      if (item.is_string() && list[0].is_string()) {
        prompt = text_prompt(model, item.get_string(), add_special, request.parse_special);
      } else if (!item.is_array() || !list[0].is_array() ||
                 !ids_prompt(item.get_array(), vocab, prompt)) {
        wrong();
        return;
      }
      request.prompts.push_back(std::move(prompt));
    }
  }
  for (Prompt& prompt : request.prompts) {
    if (request.echo && prompt.text.empty()) {
      prompt.text =
          model.tokenizer->decode(prompt.tokens, {.skip_special = request.skip_special_tokens});
    }
  }
  if (std::any_of(request.prompts.begin(), request.prompts.end(),
                  [](const Prompt& p) { return p.tokens.empty(); })) {
    fields.fail("prompt", "'prompt' is empty");
  }
}

void truncate_prompts(ApiRequest& request, int context, const tokenizer::Tokenizer& tokenizer) {
  if (request.truncate_prompt == 0) {
    return;
  }
  const int room = context - std::max(1, request.sampling.max_tokens);
  const int wanted = request.truncate_prompt < 0 ? room : request.truncate_prompt;
  const auto kept = static_cast<size_t>(std::max(1, wanted));
  for (Prompt& prompt : request.prompts) {
    if (prompt.tokens.size() <= kept) {
      continue;
    }
    prompt.tokens.erase(prompt.tokens.begin(),
                        prompt.tokens.end() - static_cast<std::ptrdiff_t>(kept));
    if (request.echo) {
      prompt.text = tokenizer.decode(prompt.tokens, {.skip_special = request.skip_special_tokens});
    }
  }
}

}  // namespace baton::router
