#pragma once

// Errors in the shape that OpenAI's clients read (docs/api.md):
//   {"error":{"message":"...","type":"...","param":null,"code":null}}

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/http/message.h"

namespace baton::http {

struct ApiError {
  int http_status = 500;
  std::string message;
  std::string type;   // "invalid_request_error", ...
  std::string param;  // the field at fault; empty = null
  std::string code;   // "context_length_exceeded", ...; empty = null
};

// Status and type by the table of common/base/status.h. `code` is the status label for failures of
// the service ("worker_lost"); for the caller's own mistakes it stays null unless given.
ApiError to_api_error(const Status& status, std::string_view param = {},
                      std::string_view code = {});

// The JSON text alone, without a line feed: also the data of an error event inside a stream. What a
// client has sent and a message or param quotes is cut where it is long.
std::string error_json(const ApiError& error);

// A complete response; 429 and 503 carry Retry-After, 401 carries WWW-Authenticate: Bearer.
Response error_response(const ApiError& error, int retry_after_s = 1);
Response error_response(const Status& status, std::string_view param = {},
                        std::string_view code = {});

Response json_response(int status, std::string json);
Response text_response(int status, std::string text);

// Appends `text` as a JSON string with its quotes. Never fails: bytes that are not UTF-8 become
// U+FFFD. Control characters, U+0085, U+2028 and U+2029 are escaped, because line readers of some
// clients split on them.
void append_json_string(std::string& out, std::string_view text);

}  // namespace baton::http
