// Requests and responses from hostile peers. The first byte of the input chooses the piece size in
// which the rest is fed; cutting it otherwise must not change what is understood.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/http/error.h"
#include "common/http/parser.h"

namespace {

using baton::http::ParseState;

constexpr baton::http::RequestParser::Limits kLimits{2048, 512, 4096};

bool ended(ParseState state) {
  return state == ParseState::kComplete || state == ParseState::kFailed;
}

template <typename Parser>
void feed(Parser& parser, std::string_view text, size_t piece) {
  std::string pending;
  while (!text.empty() && !ended(parser.state())) {
    pending += text.substr(0, piece);
    text.remove_prefix(std::min(piece, text.size()));
    size_t before = 0;
    do {
      before = pending.size();
      const size_t taken = parser.feed(pending);
      BATON_CHECK(taken <= pending.size(), "took more than there was");
      pending.erase(0, taken);
    } while (!pending.empty() && pending.size() != before && !ended(parser.state()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  baton::http::RequestParser whole(kLimits);
  feed(whole, text, text.size() + 1);
  baton::http::RequestParser cut(kLimits);
  feed(cut, text, data[0] % 64 + 1);
  BATON_CHECK(whole.request().body.size() <= kLimits.body_bytes, "the body limit does not hold");
  if (whole.state() == ParseState::kComplete && cut.state() == ParseState::kComplete) {
    BATON_CHECK(whole.request().body == cut.request().body, "the cut changes the body");
    BATON_CHECK(whole.request().path == cut.request().path, "the cut changes the path");
  }
  BATON_CHECK(whole.state() != ParseState::kFailed || whole.failure().http_status >= 400,
              "a refusal without a status");

  baton::http::ResponseParser response(data[0] % 2 == 0, {}, [](std::string_view) { return true; });
  feed(response, text, data[0] % 64 + 1);
  response.feed_end();

  std::string json;
  baton::http::append_json_string(json, text);
  return 0;
}
