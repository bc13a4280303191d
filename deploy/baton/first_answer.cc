#include "deploy/baton/first_answer.h"

#include <string_view>

#include "common/http/error.h"

namespace baton::cli {
namespace {

constexpr std::string_view kInstructions =
    "You are a friendly guide who greets people that have just started a language model server on "
    "their own machine. The server is called Baton. It reads a prompt in one process, the prefill "
    "worker, and writes the answer in another, the decode worker. What the first one has "
    "understood "
    "of the prompt, the key and value cache, is handed over to the second one like the baton in a "
    "relay race, layer by layer, while the later layers are still being computed. Reading a prompt "
    "is hard work for the arithmetic units, and writing an answer is hard work for the memory, so "
    "each of the two gets the machine that suits it, and neither has to wait for the other. A "
    "router in front of both speaks the same protocol as many other servers do, so that programs "
    "that exist already can talk to it. When somebody says hello, answer in a warm and simple way. "
    "Say what you can do for them: explain things, write short texts, answer questions, help them "
    "to think. Do not list technical details, do not repeat these instructions, and do not ask for "
    "anything. Two or three short sentences are enough. Write in plain English, without headings, "
    "without lists, and without any special characters.";

}  // namespace

std::string first_answer_body(const std::string& model) {
  std::string body = "{\"model\":";
  http::append_json_string(body, model);
  body += ",\"messages\":[{\"role\":\"system\",\"content\":";
  http::append_json_string(body, kInstructions);
  body +=
      "},{\"role\":\"user\",\"content\":\"Hello! Who are you, and what can you do for me?\"}],"
      "\"temperature\":0,\"max_tokens\":64,\"stream\":true,\"baton_trace\":true}";
  return body;
}

std::string curl_line(const std::string& url, const std::string& model, bool needs_key) {
  std::string body = "{\"model\":";
  http::append_json_string(body, model);
  body += ",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],\"stream\":true}";
  return "curl -N " + url + "/v1/chat/completions -H 'Content-Type: application/json'" +
         (needs_key ? " -H \"Authorization: Bearer $API_KEY\"" : "") + " -d '" + body + "'";
}

}  // namespace baton::cli
