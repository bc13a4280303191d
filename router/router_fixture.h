#pragma once

// What the tests of this folder share.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "common/base/mutex.h"
#include "common/config/config.h"
#include "common/http/server.h"
#include "common/tokenizer/tokenizer.h"
#include "common/wire/messages.h"
#include "router/api/request.h"

namespace baton::router {

// Of tests/data/models/tiny_f32.gguf: 320 tokens, BOS 1, EOS 2, a ChatML template.
tokenizer::Tokenizer tiny_tokenizer();
// Of models/smollm2-135m-instruct-q4_1.gguf; a missing file fails the test.
tokenizer::Tokenizer smollm2_tokenizer();
tokenizer::Tokenizer llama2_tokenizer();  // small, with SentencePiece's hidden first space

// A body that must be valid JSON: Boost.JSON also checks its UTF-8.
boost::json::value json(std::string_view text);
// The data of each event of an SSE stream; the framing is checked.
std::vector<std::string> events(std::string_view stream);

ApiRequest completion(std::string_view body, const tokenizer::Tokenizer& tokenizer);
ApiRequest chat(std::string_view body, const tokenizer::Tokenizer& tokenizer);

// A worker with 64 blocks of 32 tokens, named by its role and number ("p0").
wire::WorkerInfo worker_info(wire::Role role, int number);

// Keeps what is written. Thread-safe.
class FakeResponder final : public http::Responder {
 public:
  void send(http::Response response) override;
  void begin_stream(int status, http::Headers headers) override;
  bool write(std::string_view bytes) override;
  void finish() override;
  bool alive() const override;
  void on_close(std::function<void()> callback) override;
  size_t buffered_bytes() const override { return 0; }

  // The client goes away.
  void close();
  bool done() const;
  // Waits until the answer is complete; false after ten seconds.
  bool wait_done();
  // Waits until so many bytes of a stream were written.
  bool wait_written(size_t bytes);

  int status() const;
  http::Headers headers() const;
  std::string body() const;  // of a response, or what was streamed
  bool streamed() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  http::Response response_ GUARDED_BY(mutex_);
  bool streamed_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
  bool alive_ GUARDED_BY(mutex_) = true;
  std::function<void()> on_close_ GUARDED_BY(mutex_);
};

}  // namespace baton::router
