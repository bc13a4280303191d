#pragma once

// Incremental HTTP/1.1 message parsing over plain buffers: a thin layer over Beast's parser that
// adds the checks Beast leaves to its user. One thread at a time; no I/O.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/http/message.h"

namespace baton::http {

enum class ParseState : uint8_t { kHeader, kBody, kComplete, kFailed };

struct ParseFailure {
  int http_status = 400;
  std::string message;
};

// One request.
class RequestParser {
 public:
  struct Limits {
    size_t header_bytes = 16 * 1024;
    size_t target_bytes = 8 * 1024;
    size_t body_bytes = 32 * 1024 * 1024;
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  // Takes bytes from the front of `input`, which begins with whatever the last call left, and
  // returns how many it took. Goes on until the input is used up or the request complete, but stops
  // once at the end of the header.
  size_t feed(std::string_view input);

  ParseState state() const;
  const ParseFailure& failure() const;  // when kFailed
  // The rest after the header has been read.
  bool keep_alive() const;
  bool expects_continue() const;
  // Complete when kComplete; while kFailed what was understood.
  Request& request();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One response; interim 1xx responses are passed over.
class ResponseParser {
 public:
  using OnHead = std::function<void(const Response&)>;
  using OnBody = std::function<bool(std::string_view)>;

  // `on_body` returns false to stop: the state is then kFailed and stopped() true.
  ResponseParser(bool head_request, OnHead on_head, OnBody on_body);
  ~ResponseParser();

  size_t feed(std::string_view input);
  void feed_end();  // the connection was closed by the peer

  ParseState state() const;
  const ParseFailure& failure() const;
  bool stopped() const;
  bool keep_alive() const;
  Response& response();  // status and headers

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::http
