#include "router/api/tokenize.h"

#include <chrono>

#include "common/http/error.h"
#include "common/tokenizer/utf8.h"
#include "router/api/field_reader.h"
#include "router/api/response.h"

namespace baton::router {
namespace {

constexpr size_t kMaxIds = 1 << 24;

http::Response fault_response(const ApiFault& fault) {
  return http::error_response(fault.status, fault.param, fault.code);
}

http::Response fault_response(const FieldReader& fields) {
  return http::error_response(fields.status(), fields.param());
}

// llama.cpp's form: text where the bytes are text, else the bytes.
void append_pieces(std::string& out, const std::vector<TokenId>& ids,
                   const tokenizer::Tokenizer& tokenizer) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view bytes = tokenizer.token_bytes(ids[i]);
    out += (i == 0 ? "{\"id\":" : ",{\"id\":") + std::to_string(ids[i]) + ",\"piece\":";
    if (tokenizer::is_valid_utf8(bytes)) {
      http::append_json_string(out, bytes);
    } else {
      append_bytes(out, bytes);
    }
    out += '}';
  }
  out += ']';
}

http::Response tokens_response(const std::vector<TokenId>& ids, bool with_pieces,
                               const tokenizer::Tokenizer& tokenizer, int max_context) {
  std::string out = "{\"tokens\":";
  if (with_pieces) {
    append_pieces(out, ids, tokenizer);
  } else {
    append_ids(out, ids);
  }
  out += ",\"count\":" + std::to_string(ids.size()) +
         ",\"max_model_len\":" + std::to_string(max_context) + "}";
  return http::json_response(200, std::move(out));
}

// A string field, or null.
void append_text(std::string& out, std::string_view name, std::optional<std::string_view> text) {
  out += ",\"" + std::string(name) + "\":";
  if (text) {
    http::append_json_string(out, *text);
  } else {
    out += "null";
  }
}

}  // namespace

http::Response tokenize(std::string_view body, const ServedModel& model, const ChatPrompt& chat,
                        int max_context) {
  const Parsed<boost::json::value> json = parse_body(body);
  if (!json.ok()) {
    return fault_response(json.fault);
  }
  const boost::json::object& object = json.value.get_object();
  const tokenizer::Tokenizer& vocab = *model.tokenizer;
  FieldReader fields(object);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  if (fields.raw("messages") != nullptr) {
    const Parsed<ApiRequest> request = parse_chat(object, model);
    if (!request.ok() || !fields.status().ok()) {
      return request.ok() ? fault_response(fields) : fault_response(request.fault);
    }
    const Result<ChatTurn> turn = chat.turn(
        request.value,
        std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now()));
    return turn.ok() ? tokens_response(turn->tokens, with_pieces, vocab, max_context)
                     : fault_response({turn.status(), "messages", ""});
  }
  const bool llama_form = fields.raw("content") != nullptr;
  const std::optional<std::string> text = fields.text(llama_form ? "content" : "prompt");
  const bool special = llama_form ? fields.boolean("add_special").value_or(false)
                                  : fields.boolean("add_special_tokens").value_or(true);
  if (!text) {
    fields.fail("prompt", "'prompt' (or 'content') must be a string");
  }
  if (!fields.status().ok()) {
    return fault_response(fields);
  }
  const std::vector<TokenId> ids =
      vocab.encode(*text, {.add_bos = special && vocab.adds_bos(), .parse_special = parse_special});
  return tokens_response(ids, with_pieces, vocab, max_context);
}

http::Response detokenize(std::string_view body, const tokenizer::Tokenizer& tokenizer) {
  const Parsed<boost::json::value> json = parse_body(body);
  if (!json.ok()) {
    return fault_response(json.fault);
  }
  FieldReader fields(json.value.get_object());
  const std::vector<TokenId> ids =
      fields.token_ids("tokens", kMaxIds, static_cast<int32_t>(tokenizer.vocab_size()));
  if (fields.raw("tokens") == nullptr) {
    fields.fail("tokens", "'tokens' must be a list of token ids");
  }
  if (!fields.status().ok()) {
    return fault_response(fields);
  }
  std::string text;
  http::append_json_string(text, tokenizer.decode(ids, {.skip_special = false}));
  return http::json_response(200, "{\"prompt\":" + text + ",\"content\":" + text + "}");
}

http::Response tokenizer_info(const tokenizer::Tokenizer& tokenizer) {
  const auto text_of = [&tokenizer](std::optional<TokenId> id) -> std::optional<std::string_view> {
    return id ? std::optional(tokenizer.token_text(*id)) : std::nullopt;
  };
  const std::string& chat_template = tokenizer.chat_template();
  std::string out = tokenizer.kind() == tokenizer::VocabularyKind::kByteLevel
                        ? "{\"tokenizer_class\":\"ByteLevelBPE\""
                        : "{\"tokenizer_class\":\"SentencePieceBPE\"";
  append_text(out, "bos_token", text_of(tokenizer.bos_id()));
  append_text(out, "eos_token", text_of(tokenizer.eos_id()));
  append_text(
      out, "chat_template",
      chat_template.empty() ? std::nullopt : std::optional<std::string_view>(chat_template));
  return http::json_response(200, out + '}');
}

}  // namespace baton::router
