#include "common/http/exchange.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

namespace baton::http {
namespace {

// Larger bodies are a piece of their own instead of being copied behind the head.
constexpr size_t kJoinLimit = 64 * 1024;

// IMF-fixdate (RFC 9110, 5.6.7); strftime would follow the locale.
void append_date(std::string& out) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
                kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon], utc.tm_year + 1900,
                utc.tm_hour, utc.tm_min, utc.tm_sec);
  out += text.data();
}

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7F) || c == '\t') {
      out += c;
    }
  }
}

bool has_no_body(int status) { return status / 100 == 1 || status == 204 || status == 304; }

class ExchangeResponder final : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeResponder() override { exchange_->abandon(); }

  void send(Response response) override { exchange_->send(std::move(response)); }
  void begin_stream(int status, Headers headers) override {
    exchange_->begin_stream(status, std::move(headers));
  }
  bool write(std::string_view bytes) override { return exchange_->write(bytes); }
  void finish() override { exchange_->finish(); }
  bool alive() const override { return exchange_->alive(); }
  void on_close(std::function<void()> callback) override {
    exchange_->on_close(std::move(callback));
  }
  size_t buffered_bytes() const override { return exchange_->buffered_bytes(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::string encode_head(int status, const Headers& headers, const WireForm& form,
                        size_t content_length) {
  std::string out;
  out.reserve(256);
  out += form.http_minor == 0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(status);
  out += ' ';
  out += reason_phrase(status);
  out += "\r\n";
  append_date(out);
  for (const auto& [name, value] : headers) {
    if (equals_ignoring_case(name, "Content-Length") ||
        equals_ignoring_case(name, "Transfer-Encoding") ||
        equals_ignoring_case(name, "Connection") || equals_ignoring_case(name, "Date")) {
      continue;
    }
    append_clean(out, name);
    out += ": ";
    append_clean(out, value);
    out += "\r\n";
  }
  if (form.body == WireForm::Body::kChunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (form.body == WireForm::Body::kLength && !has_no_body(status)) {
    out += "Content-Length: " + std::to_string(content_length) + "\r\n";
  }
  if (!form.keep_alive) {
    out += "Connection: close\r\n";
  } else if (form.http_minor == 0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

Exchange::Exchange(Setup setup, std::weak_ptr<OutputSink> sink)
    : setup_(std::move(setup)), sink_(std::move(sink)), keep_alive_(setup_.keep_alive) {}

void Exchange::push(std::string piece) {
  buffered_ += piece.size();
  pieces_.push_back(std::move(piece));
}

void Exchange::wake() {
  if (const std::shared_ptr<OutputSink> sink = sink_.lock()) {
    sink->wake();
  }
}

void Exchange::send(Response response) {
  {
    MutexLock lock(mutex_);
    if (stage_ != Stage::kPending) {
      return;
    }
    stage_ = Stage::kComplete;
    if (dead_) {
      return;
    }
    const WireForm form{setup_.http_minor, setup_.head_request, keep_alive_,
                        WireForm::Body::kLength};
    std::string head = encode_head(response.status, response.headers, form, response.body.size());
    const bool with_body = !setup_.head_request && !has_no_body(response.status);
    if (!with_body || response.body.size() <= kJoinLimit) {
      head += with_body ? std::string_view(response.body) : std::string_view();
      push(std::move(head));
    } else {
      push(std::move(head));
      push(std::move(response.body));
    }
  }
  wake();
}

void Exchange::begin_stream(int status, Headers headers) {
  MutexLock lock(mutex_);
  if (stage_ != Stage::kPending) {
    return;
  }
  stage_ = Stage::kStreaming;
  chunked_ = setup_.http_minor == 1;
  if (!chunked_) {
    keep_alive_ = false;  // the end of the connection is the end of the body
  }
  held_head_ = encode_head(status, headers,
                           {setup_.http_minor, setup_.head_request, keep_alive_,
                            chunked_ ? WireForm::Body::kChunked : WireForm::Body::kUntilClose},
                           0);
}

bool Exchange::write(std::string_view bytes) {
  bool accepted = true;
  {
    MutexLock lock(mutex_);
    if (dead_ || broken_ || stage_ != Stage::kStreaming) {
      return false;
    }
    if (bytes.empty() || setup_.head_request) {
      return true;  // an empty chunk would end the body
    }
    if (buffered_ + bytes.size() > setup_.max_buffered_bytes) {
      broken_ = true;
      accepted = false;
    } else {
      std::string piece = std::exchange(held_head_, {});
      piece.reserve(piece.size() + bytes.size() + 16);
      if (chunked_) {
        std::array<char, 16> size{};
        const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
        piece.append(size.data(), end.ptr);
        piece += "\r\n";
      }
      piece += bytes;
      if (chunked_) {
        piece += "\r\n";
      }
      push(std::move(piece));
    }
  }
  wake();
  return accepted;
}

void Exchange::finish() {
  {
    MutexLock lock(mutex_);
    if (stage_ != Stage::kStreaming) {
      return;
    }
    stage_ = Stage::kComplete;
    std::string piece = std::exchange(held_head_, {});
    if (chunked_ && !setup_.head_request) {
      piece += "0\r\n\r\n";
    }
    if (!piece.empty() && !dead_) {
      push(std::move(piece));
    }
  }
  wake();
}

bool Exchange::alive() const {
  MutexLock lock(mutex_);
  return !dead_ && !broken_;
}

void Exchange::on_close(std::function<void()> callback) {
  std::function<void()> replaced;  // destroyed outside the lock: it may hold the responder
  {
    MutexLock lock(mutex_);
    if (completed_) {
      return;
    }
    if (!dead_) {
      replaced = std::exchange(on_close_, std::move(callback));
      return;
    }
  }
  if (callback) {
    callback();
  }
}

size_t Exchange::buffered_bytes() const {
  MutexLock lock(mutex_);
  return buffered_;
}

void Exchange::abandon() {
  Stage stage = Stage::kComplete;
  {
    MutexLock lock(mutex_);
    stage = dead_ ? Stage::kComplete : stage_;
    broken_ = broken_ || stage == Stage::kStreaming;
  }
  if (stage == Stage::kPending) {
    if (const std::shared_ptr<OutputSink> sink = sink_.lock()) {
      send(sink->abandoned_response());
    }
  } else if (stage == Stage::kStreaming) {
    wake();
  }
}

Exchange::Output Exchange::take() {
  MutexLock lock(mutex_);
  Output output;
  output.pieces.swap(pieces_);
  output.complete = stage_ == Stage::kComplete;
  output.keep_alive = keep_alive_;
  output.broken = broken_;
  return output;
}

void Exchange::sent(size_t bytes) {
  MutexLock lock(mutex_);
  buffered_ -= std::min(bytes, buffered_);
}

void Exchange::completed() {
  std::function<void()> dropped;  // outlives the lock: it may hold the responder
  MutexLock lock(mutex_);
  completed_ = true;
  dropped = std::exchange(on_close_, {});
}

void Exchange::closed() {
  std::function<void()> callback;
  {
    MutexLock lock(mutex_);
    if (dead_) {
      return;
    }
    dead_ = true;
    pieces_.clear();
    buffered_ = 0;
    callback = std::exchange(on_close_, {});
  }
  if (callback) {
    callback();
  }
}

void Exchange::close_after() {
  MutexLock lock(mutex_);
  if (stage_ == Stage::kPending) {
    keep_alive_ = false;
  }
}

std::shared_ptr<Responder> make_responder(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<ExchangeResponder>(std::move(exchange));
}

}  // namespace baton::http
