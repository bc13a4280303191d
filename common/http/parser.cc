#include "common/http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>
#include <utility>

namespace baton::http {
namespace {

namespace beast_http = boost::beast::http;
using ErrorCode = boost::beast::error_code;
using BeastView = boost::beast::string_view;

std::string_view view(BeastView text) { return {text.data(), text.size()}; }

// Longest line of chunk framing and longest trailer that are kept while they are incomplete.
constexpr size_t kMaxFramingBytes = 16 * 1024;
// Received bodies grow as they come: a large Content-Length alone allocates no more than this.
constexpr size_t kInitialBodyBytes = 64 * 1024;

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') {
      return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = high >= 0 ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Splits the target, also in absolute form ("http://host/path", as sent to proxies).
bool split_target(Request& request) {
  std::string_view rest = request.target;
  if (!rest.starts_with('/') && rest != "*") {
    const size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos || scheme == 0) {
      return false;
    }
    rest.remove_prefix(scheme + 3);
    const size_t path = rest.find_first_of("/?");
    rest = path == std::string_view::npos ? "/" : rest.substr(path);
  }
  const size_t question = rest.find('?');
  if (question != std::string_view::npos) {
    request.query = rest.substr(question + 1);
  }
  std::optional<std::string> path = percent_decoded(rest.substr(0, question));
  if (!path) {
    return false;
  }
  request.path = path->empty() ? "/" : *std::move(path);
  return true;
}

// The callbacks that requests and responses share.
template <bool kIsRequest>
class Base : public beast_http::basic_parser<kIsRequest> {
 public:
  Headers* headers = nullptr;
  bool header_done = false;
  std::function<bool(std::string_view)> on_body;

 protected:
  void on_field_impl(beast_http::field, BeastView name, BeastView value, ErrorCode& ec) override {
    if (value.find('\0') != BeastView::npos) {
      ec = beast_http::error::bad_value;
      return;
    }
    if (!header_done) {  // trailers are passed over
      headers->add(std::string(view(name)), std::string(view(value)));
    }
  }
  void on_header_impl(ErrorCode&) override { header_done = true; }
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(BeastView body, ErrorCode& ec) override {
    if (!on_body(view(body))) {
      ec = beast_http::error::end_of_chunk;  // any code: stopped_ tells why
    }
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, BeastView, ErrorCode&) override {}
  size_t on_chunk_body_impl(uint64_t, BeastView body, ErrorCode& ec) override {
    return on_body_impl(body, ec);
  }
  void on_finish_impl(ErrorCode&) override {}
};

class BeastRequest final : public Base<true> {
 public:
  Request request;

 private:
  void on_request_impl(beast_http::verb, BeastView method, BeastView target, int version,
                       ErrorCode&) override {
    request.method = view(method);
    request.target = view(target);
    request.http_minor = version % 10;
  }
  void on_response_impl(int, BeastView, int, ErrorCode&) override {}
};

class BeastResponse final : public Base<false> {
 public:
  Response response;

 private:
  void on_request_impl(beast_http::verb, BeastView, BeastView, int, ErrorCode&) override {}
  void on_response_impl(int code, BeastView, int, ErrorCode&) override { response.status = code; }
};

std::string describe(const ErrorCode& ec) {
  using beast_http::error;
  if (ec == error::bad_method) {
    return "the method is not valid";
  }
  if (ec == error::bad_target) {
    return "the request target is not valid";
  }
  if (ec == error::bad_version) {
    return "the version is not HTTP/1.0 or HTTP/1.1";
  }
  if (ec == error::bad_field || ec == error::bad_value || ec == error::bad_line_ending ||
      ec == error::bad_obs_fold) {
    return "a header field is not valid";
  }
  if (ec == error::bad_content_length || ec == error::multiple_content_length) {
    return "Content-Length is not valid, or contradicts another field";
  }
  if (ec == error::bad_transfer_encoding) {
    return "Transfer-Encoding is not valid, or contradicts Content-Length";
  }
  if (ec == error::bad_chunk || ec == error::bad_chunk_extension) {
    return "the chunked body is not valid";
  }
  return "the message is not valid HTTP";
}

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const Limits& l) : limits(l) {
    parser.headers = &parser.request.headers;
    parser.eager(true);
    parser.header_limit(UINT32_MAX);  // the header comes whole and already measured
    parser.body_limit(l.body_bytes);
    parser.on_body = [this](std::string_view bytes) {
      std::string& body = parser.request.body;
      if (body.empty()) {
        body.reserve(std::min(limits.body_bytes, std::max(bytes.size(), kInitialBodyBytes)));
      }
      body += bytes;
      return true;
    };
  }

  void fail(int http_status, std::string message) {
    state = ParseState::kFailed;
    failure = {http_status, std::move(message)};
  }

  // Beast counts the limit anew after each line, so the header is handed over whole. Returns its
  // length, or 0 while it is incomplete or refused.
  size_t header_length(std::string_view input) {
    const size_t end = input.find("\r\n\r\n", scanned > 3 ? scanned - 3 : 0);
    // What can be refused early is not waited for: other protocols, and lines that end in LF alone.
    if (static_cast<unsigned char>(input[0]) <= ' ' || static_cast<unsigned char>(input[0]) > '~') {
      fail(400, "this is not HTTP; the address serves plain http://, without TLS");
      return 0;
    }
    for (size_t lf = input.substr(0, end).find('\n', scanned); lf != std::string_view::npos;
         lf = input.substr(0, end).find('\n', lf + 1)) {
      if (lf == 0 || input[lf - 1] != '\r') {
        fail(400, "a header line ends without CR LF");
        return 0;
      }
    }
    scanned = input.size();
    const size_t length = end == std::string_view::npos ? 0 : end + 4;
    const size_t line_end = input.find("\r\n");
    if (line_end == std::string_view::npos ? input.size() > limits.target_bytes + 64
                                           : line_end > limits.target_bytes + 64) {
      fail(414,
           "the request target is longer than " + std::to_string(limits.target_bytes) + " bytes");
      return 0;
    }
    if (std::max(length, length == 0 ? input.size() : 0) > limits.header_bytes) {
      fail(431, "the header is larger than " + std::to_string(limits.header_bytes) + " bytes");
      return 0;
    }
    // A folded line (RFC 9112, 5.2) is how headers are smuggled past proxies.
    const std::string_view header = input.substr(0, length);
    if (header.find("\r\n ") != std::string_view::npos ||
        header.find("\r\n\t") != std::string_view::npos) {
      fail(400, "a header field is folded over several lines");
      return 0;
    }
    return length;
  }

  // What the header asks for, beyond its syntax. Order: refusals that concern the framing first,
  // since the connection cannot go on after them.
  void check_header() {
    Request& request = parser.request;
    if (request.headers.contains("Transfer-Encoding")) {
      if (request.headers.count("Transfer-Encoding") > 1 ||
          !equals_ignoring_case(request.headers.get("Transfer-Encoding"), "chunked")) {
        return fail(501, "the only transfer coding understood is chunked");
      }
      if (request.http_minor == 0) {
        return fail(400, "HTTP/1.0 has no transfer codings");
      }
    }
    if (request.target.size() > limits.target_bytes) {
      return fail(414, "the request target is longer than " + std::to_string(limits.target_bytes) +
                           " bytes");
    }
    const size_t hosts = request.headers.count("Host");
    if (hosts > 1 || (hosts == 0 && request.http_minor == 1)) {
      return fail(400,
                  hosts > 1 ? "there is more than one Host field" : "the Host field is missing");
    }
    if (!split_target(request)) {
      return fail(400, "the request target is not valid");
    }
    if (const std::string* expect = request.headers.find("Expect");
        expect != nullptr && !equals_ignoring_case(*expect, "100-continue")) {
      return fail(417, "the only expectation understood is 100-continue");
    }
  }

  void take_error(const ErrorCode& ec, std::string_view input) {
    if (ec == beast_http::error::body_limit) {
      return fail(413, "the body is larger than " + std::to_string(limits.body_bytes) + " bytes");
    }
    if (ec == beast_http::error::bad_version) {
      const std::string_view line = input.substr(0, input.find("\r\n"));
      const size_t version = line.rfind(" HTTP/");
      return version != std::string_view::npos
                 ? fail(505, describe(ec))
                 : fail(400, "the request line does not end in HTTP/1.0 or HTTP/1.1");
    }
    fail(400, describe(ec));
  }

  Limits limits;
  BeastRequest parser;
  ParseState state = ParseState::kHeader;
  ParseFailure failure;
  size_t scanned = 0;
};

RequestParser::RequestParser(const Limits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

size_t RequestParser::feed(std::string_view input) {
  Impl& impl = *impl_;
  size_t taken = 0;
  if (impl.state == ParseState::kHeader) {
    // RFC 9112, 2.2: empty lines before a request are passed over.
    while (impl.scanned == 0 && input.substr(taken).starts_with("\r\n")) {
      taken += 2;
    }
    input.remove_prefix(taken);
    if (input.empty() || input == "\r") {
      return taken;
    }
    const size_t length = impl.header_length(input);
    if (length == 0) {
      return taken;
    }
    ErrorCode ec;
    const size_t used = impl.parser.put(boost::asio::const_buffer(input.data(), length), ec);
    const bool incomplete = ec == beast_http::error::need_more;
    if (ec && !incomplete) {
      impl.take_error(ec, input);
      return taken;
    }
    if (!impl.parser.is_header_done()) {
      impl.fail(400, "the message is not valid HTTP");
      return taken;
    }
    impl.check_header();
    if (impl.state != ParseState::kFailed) {
      impl.state = impl.parser.is_done() ? ParseState::kComplete : ParseState::kBody;
    }
    return taken + used;
  }
  if (impl.state == ParseState::kBody && !input.empty()) {
    ErrorCode ec;
    taken = impl.parser.put(boost::asio::const_buffer(input.data(), input.size()), ec);
    if (ec && ec != beast_http::error::need_more) {
      impl.take_error(ec, input);
    } else if (impl.parser.is_done()) {
      impl.state = ParseState::kComplete;
    } else if (input.size() - taken > kMaxFramingBytes) {
      impl.fail(400, "a chunk header or trailer is too long");
    }
  }
  return taken;
}

ParseState RequestParser::state() const { return impl_->state; }
const ParseFailure& RequestParser::failure() const { return impl_->failure; }
bool RequestParser::keep_alive() const {
  return impl_->parser.is_header_done() && impl_->parser.keep_alive();
}
bool RequestParser::expects_continue() const {
  const Request& request = impl_->parser.request;
  return request.http_minor == 1 && request.headers.contains("Expect");
}
Request& RequestParser::request() { return impl_->parser.request; }

struct ResponseParser::Impl {
  void reset() {
    parser.emplace();
    parser->headers = &parser->response.headers;
    parser->eager(true);
    parser->header_limit(256 * 1024);
    parser->body_limit(boost::none);
    parser->skip(head_request);
    parser->on_body = [this](std::string_view bytes) {
      announce_head();
      stopped = !on_body(bytes);
      return !stopped;
    };
    head_announced = false;
  }
  void announce_head() {
    if (!head_announced && on_head) {
      on_head(parser->response);
    }
    head_announced = true;
  }
  void fail(std::string message) {
    state = ParseState::kFailed;
    failure = {502, std::move(message)};
  }

  bool head_request = false;
  OnHead on_head;
  OnBody on_body;
  std::optional<BeastResponse> parser;
  ParseState state = ParseState::kHeader;
  ParseFailure failure;
  bool stopped = false;
  bool head_announced = false;
};

ResponseParser::ResponseParser(bool head_request, OnHead on_head, OnBody on_body)
    : impl_(std::make_unique<Impl>()) {
  impl_->head_request = head_request;
  impl_->on_head = std::move(on_head);
  impl_->on_body = std::move(on_body);
  impl_->reset();
}
ResponseParser::~ResponseParser() = default;

size_t ResponseParser::feed(std::string_view input) {
  Impl& impl = *impl_;
  size_t taken = 0;
  while (taken < input.size() && impl.state != ParseState::kComplete &&
         impl.state != ParseState::kFailed) {
    ErrorCode ec;
    const std::string_view rest = input.substr(taken);
    const size_t used = impl.parser->put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    taken += used;
    if (ec && ec != beast_http::error::need_more) {
      impl.fail(impl.stopped ? "stopped" : describe(ec));
      break;
    }
    if (!impl.parser->is_header_done()) {
      break;
    }
    if (impl.parser->response.status / 100 == 1) {
      impl.reset();
      continue;
    }
    impl.announce_head();
    impl.state = impl.parser->is_done() ? ParseState::kComplete : ParseState::kBody;
    if (ec || used == 0) {
      break;
    }
  }
  return taken;
}

void ResponseParser::feed_end() {
  Impl& impl = *impl_;
  if (impl.state != ParseState::kHeader && impl.state != ParseState::kBody) {
    return;
  }
  if (impl.state == ParseState::kHeader) {
    impl.fail("the connection was closed before the answer");
    return;
  }
  ErrorCode ec;
  impl.parser->put_eof(ec);
  if (ec) {
    impl.fail("the connection was closed in the middle of the answer");
  } else {
    impl.state = ParseState::kComplete;
  }
}

ParseState ResponseParser::state() const { return impl_->state; }
const ParseFailure& ResponseParser::failure() const { return impl_->failure; }
bool ResponseParser::stopped() const { return impl_->stopped; }
bool ResponseParser::keep_alive() const {
  return impl_->state == ParseState::kComplete && impl_->parser->keep_alive();
}
Response& ResponseParser::response() { return impl_->parser->response; }

}  // namespace baton::http
