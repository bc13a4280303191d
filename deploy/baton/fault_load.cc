#include "deploy/baton/fault_load.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/http/client.h"
#include "common/http/event_stream.h"
#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

constexpr Duration kTimeout = 60s;  // of one stream
constexpr Duration kPause = 100ms;  // after one that failed
constexpr int kQuestions = 12;

// Long and short prompts, greedy and sampled.
std::string question(Random& random, int number) {
  constexpr std::array kWords = {"river", "seven", "lamp",  "north",  "paper", "green",
                                 "tower", "quiet", "stone", "engine", "music", "window"};
  constexpr uint64_t kLongest = 200;
  std::string prompt = "Number " + std::to_string(number) + ":";
  for (uint64_t words = 3 + random.next() % kLongest; words > 0; --words) {
    prompt += std::string(" ") + kWords[random.next() % kWords.size()];
  }
  std::string body = R"({"stream":true,"return_token_ids":true,"ignore_eos":true,"max_tokens":)" +
                     std::to_string(40 + random.next() % 60) + R"(,"prompt":")" + prompt + '"';
  body += number % 2 == 0 ? R"(,"temperature":0)"
                          : R"(,"temperature":0.8,"top_k":50,"frequency_penalty":0.3,"seed":)" +
                                std::to_string(17 * number);
  return body + "}";
}

void take_event(FaultStream& stream, const boost::json::object& event, WallTime now) {
  if (const boost::json::object* error = object_of(event, "error")) {
    stream.error = text_of(*error, "message");
    return;
  }
  stream.id = text_of(event, "id");
  const boost::json::array* choices = array_of(event, "choices");
  if (choices == nullptr || choices->empty() || !choices->front().is_object()) {
    return;
  }
  const boost::json::object& choice = choices->front().get_object();
  const boost::json::array* ids = array_of(choice, "token_ids");
  if (ids != nullptr && !ids->empty()) {
    stream.token_times.push_back(now);
    for (const boost::json::value& id : *ids) {
      stream.ids.push_back(id.is_int64() ? id.get_int64() : -1);
    }
  }
}

bool begins_with(const std::vector<int64_t>& whole, const std::vector<int64_t>& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

FaultLoad::FaultLoad(std::string url, uint64_t seed) : url_(std::move(url)), seed_(seed) {
  SeededRandom random(seed);
  for (int i = 0; i < kQuestions; ++i) {
    bodies_.push_back(question(random, i));
  }
}

FaultStream FaultLoad::ask(const std::string& body) const {
  FaultStream stream;
  std::string text;  // of an answer that is no stream
  bool streams = false;
  http::EventStreamReader events([&stream](std::string_view data) {
    if (data == "[DONE]") {
      stream.complete = stream.error.empty();
      return false;
    }
    const Result<boost::json::object> event = parse_object(data);
    if (event.ok()) {
      take_event(stream, *event, std::chrono::system_clock::now());
    } else {
      stream.error = event.status().message();
    }
    return true;
  });
  http::Client client({.timeout = kTimeout, .idle_timeout = kTimeout});
  const http::ClientRequest request{.method = "POST",
                                    .url = url_ + "/v1/completions",
                                    .headers = {{"Content-Type", "application/json"}},
                                    .body = body};
  stream.sent = std::chrono::system_clock::now();
  const Result<http::Response> answer = client.stream(
      request, [&streams](const http::Response& head) { streams = head.status == 200; },
      [&](std::string_view bytes) {
        if (streams) {
          events.feed(bytes);
        } else {
          text += bytes;
        }
        return true;
      });
  stream.ended = std::chrono::system_clock::now();
  if (!stream.complete && stream.error.empty()) {
    stream.error = !answer.ok() ? answer.status().message()
                   : streams    ? "the stream was cut"
                                : "status " + std::to_string(answer->status) + ": " + text;
  }
  return stream;
}

Status FaultLoad::learn() {
  for (const std::string& body : bodies_) {
    const FaultStream stream = ask(body);
    if (!stream.complete) {
      return internal_error("without any fault: " + stream.error);
    }
    expected_.push_back(stream.ids);
  }
  return Status();
}

void FaultLoad::run_client(const std::stop_token& stop, size_t number) {
  SeededRandom random(seed_ + number + 1);
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      begun_[number] = std::chrono::system_clock::now();
    }
    const size_t which = random.next() % bodies_.size();
    FaultStream stream = ask(bodies_[which]);
    const std::vector<int64_t>& expected = expected_[which];
    stream.wrong = stream.complete ? stream.ids != expected : !begins_with(expected, stream.ids);
    const bool failed = !stream.complete;
    {
      const MutexLock lock(mutex_);
      streams_.push_back(std::move(stream));
    }
    if (failed) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

void FaultLoad::start(int clients) {
  {
    const MutexLock lock(mutex_);
    begun_.assign(static_cast<size_t>(clients), WallTime::max());
  }
  for (size_t i = 0; i < static_cast<size_t>(clients); ++i) {
    clients_.emplace_back([this, i](const std::stop_token& stop) { run_client(stop, i); });
  }
}

bool FaultLoad::runs_since(WallTime at) {
  const MutexLock lock(mutex_);
  return std::any_of(begun_.begin(), begun_.end(), [at](WallTime begun) { return begun < at; });
}

std::vector<FaultStream> FaultLoad::stop() {
  for (std::jthread& client : clients_) {
    client.request_stop();
  }
  clients_.clear();  // joins
  const MutexLock lock(mutex_);
  return std::exchange(streams_, {});
}

}  // namespace baton::cli
