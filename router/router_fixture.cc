#include "router/router_fixture.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "common/tokenizer/load_tokenizer.h"

namespace baton::router {

using namespace std::string_literals;

namespace {

tokenizer::Tokenizer load(const std::string& file) {
  Result<tokenizer::Tokenizer> loaded = tokenizer::load_tokenizer(BATON_SOURCE_DIR + "/"s + file);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  return std::move(loaded).value();
}

}  // namespace

tokenizer::Tokenizer tiny_tokenizer() { return load("tests/data/models/tiny_f32.gguf"); }
tokenizer::Tokenizer llama2_tokenizer() { return load("tests/data/tokenizer/tiny/llama2.gguf"); }
tokenizer::Tokenizer smollm2_tokenizer() { return load("models/smollm2-135m-instruct-q4_1.gguf"); }

boost::json::value json(std::string_view text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error);
  EXPECT_FALSE(error) << error.message() << " in " << text;
  return value;
}

std::vector<std::string> events(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << "an event does not end: " << stream;
    EXPECT_TRUE(stream.starts_with("data: ")) << stream;
    const std::string_view data = stream.substr(6, end - 6);
    EXPECT_EQ(data.find_first_of("\r\n"), std::string_view::npos) << data;
    out.emplace_back(data);
    if (end == std::string_view::npos) {
      break;
    }
    stream.remove_prefix(end + 2);
  }
  return out;
}

ApiRequest completion(std::string_view body, const tokenizer::Tokenizer& tokenizer) {
  Parsed<ApiRequest> parsed = parse_completion(json(body).as_object(), {"tiny", &tokenizer});
  EXPECT_TRUE(parsed.ok()) << parsed.fault.status.to_string();
  return std::move(parsed.value);
}

ApiRequest chat(std::string_view body, const tokenizer::Tokenizer& tokenizer) {
  Parsed<ApiRequest> parsed = parse_chat(json(body).as_object(), {"tiny", &tokenizer});
  EXPECT_TRUE(parsed.ok()) << parsed.fault.status.to_string();
  return std::move(parsed.value);
}

wire::WorkerInfo worker_info(wire::Role role, int number) {
  wire::WorkerInfo info;
  info.role = role;
  info.name = (role == wire::Role::kPrefill ? "p" : "d") + std::to_string(number);
  info.incarnation.value =
      (role == wire::Role::kPrefill ? 100u : 200u) + static_cast<unsigned>(number);
  info.model_hash = {1, 2};
  info.numerics = "inv-1:split512:1";
  info.transfer_address = "tcp://127.0.0.1:1";
  info.block_tokens = 32;
  info.blocks_total = 64;
  info.max_context = 512;
  info.vocab_size = 320;
  info.kv_bytes_per_token = 1024;
  return info;
}

void FakeResponder::send(http::Response response) {
  MutexLock lock(mutex_);
  EXPECT_FALSE(done_ || streamed_) << "a second answer";
  response_ = std::move(response);
  done_ = true;
  changed_.notify_all();
}

void FakeResponder::begin_stream(int status, http::Headers headers) {
  MutexLock lock(mutex_);
  EXPECT_FALSE(done_ || streamed_) << "a second answer";
  streamed_ = true;
  response_.status = status;
  response_.headers = std::move(headers);
}

bool FakeResponder::write(std::string_view bytes) {
  MutexLock lock(mutex_);
  EXPECT_TRUE(streamed_ && !done_) << "a write outside a stream";
  if (alive_) {
    response_.body += bytes;
  }
  changed_.notify_all();
  return alive_;
}

void FakeResponder::finish() {
  MutexLock lock(mutex_);
  EXPECT_TRUE(streamed_ && !done_);
  done_ = true;
  changed_.notify_all();
}

bool FakeResponder::alive() const {
  MutexLock lock(mutex_);
  return alive_;
}

void FakeResponder::on_close(std::function<void()> callback) {
  MutexLock lock(mutex_);
  on_close_ = std::move(callback);
}

void FakeResponder::close() {
  std::function<void()> callback;
  {
    MutexLock lock(mutex_);
    alive_ = false;
    callback = std::exchange(on_close_, {});
  }
  if (callback) {
    callback();
  }
}

bool FakeResponder::done() const {
  MutexLock lock(mutex_);
  return done_;
}

bool FakeResponder::wait_done() {
  const TimePoint deadline = SteadyClock().now() + 10s;
  MutexLock lock(mutex_);
  while (!done_ && changed_.wait_until(mutex_, deadline)) {
  }
  return done_;
}

bool FakeResponder::wait_written(size_t bytes) {
  const TimePoint deadline = SteadyClock().now() + 10s;
  MutexLock lock(mutex_);
  while (response_.body.size() < bytes && changed_.wait_until(mutex_, deadline)) {
  }
  return response_.body.size() >= bytes;
}

int FakeResponder::status() const {
  MutexLock lock(mutex_);
  return response_.status;
}

http::Headers FakeResponder::headers() const {
  MutexLock lock(mutex_);
  return response_.headers;
}

std::string FakeResponder::body() const {
  MutexLock lock(mutex_);
  return response_.body;
}

bool FakeResponder::streamed() const {
  MutexLock lock(mutex_);
  return streamed_;
}

}  // namespace baton::router
