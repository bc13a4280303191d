#include "deploy/baton/first_answer.h"

#include "common/http/error.h"

namespace baton::cli {
namespace {

constexpr std::string_view kInstructions =
    "You are a friendly and helpful assistant. You answer in plain and simple English. You are "
    "polite and patient. You keep your answers short: two or three sentences are enough. You know "
    "many things about the world: history, geography, science, nature, music, books, cooking and "
    "sport. When somebody asks you to explain something, you begin with the most important point, "
    "then you give one example from everyday life, and then you stop. When somebody asks for a "
    "story, you write a short one with a happy end. When somebody asks for advice, you say what "
    "you would do, and why. When you do not know something, you say so. You never insult anybody, "
    "and you do not repeat yourself. You do not use lists, headings or special characters. When "
    "somebody greets you, greet them back in a warm way.";

}  // namespace

std::string first_answer_body(const std::string& model) {
  std::string body = "{\"model\":";
  http::append_json_string(body, model);
  body += ",\"messages\":[{\"role\":\"system\",\"content\":";
  http::append_json_string(body, kInstructions);
  body += "},{\"role\":\"user\",\"content\":\"" + std::string(kFirstQuestion) +
          "\"}],\"temperature\":0,\"max_tokens\":61,\"stream\":true,\"baton_trace\":true}";
  return body;
}

std::string curl_line(const std::string& url, const std::string& model, bool needs_key) {
  std::string body = "{\"model\":";
  http::append_json_string(body, model);
  body += ",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],\"stream\":true}";
  // The certificate is for the names that clients elsewhere use.
  const std::string insecure = url.starts_with("https://") ? "--insecure " : "";
  return "curl -N " + insecure + url + "/v1/chat/completions -H 'Content-Type: application/json'" +
         (needs_key ? " -H \"Authorization: Bearer $API_KEY\"" : "") + " -d '" + body + "'";
}

}  // namespace baton::cli
