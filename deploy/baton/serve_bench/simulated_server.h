#pragma once

// A server in simulated time, for the tests: prompts are computed one after the other, tokens then
// come at a fixed pace. It carries a known rate and answers at known times.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deploy/baton/serve_bench/completion_port.h"

namespace baton::serve_bench {

class SimulatedServer final : public CompletionPort {
 public:
  Duration prefill = 10ms;  // of a prompt; several wait for each other
  Duration pace = 5ms;      // between tokens
  double tokens_per_word = 1;
  int64_t overhead = 0;  // tokens that the server adds to a prompt
  bool counts = true;    // sends usage
  bool hangs = false;    // never answers
  // A failure in place of an answer, by the number of the request and its body.
  std::function<std::optional<AnswerEnd>(size_t number, const std::string& body)> refuse;

  std::vector<std::string> bodies;  // of all requests

  TimePoint now() const override { return now_; }

  void start(CompletionCall call, AnswerObserver& observer) override {
    const size_t number = bodies.size();
    bodies.push_back(call.body);
    const uint64_t id = ++last_id_;
    observers_[id] = &observer;
    at(now_ + call.timeout, id, [this, id] { end(id, {.outcome = Outcome::kTimeout}); });
    std::optional<AnswerEnd> refusal = refuse ? refuse(number, call.body) : std::nullopt;
    if (refusal) {
      at(now_ + 1ms, id, [this, id, e = *refusal] { end(id, e); });
    } else if (!hangs) {
      answer(id, call.body);
    }
  }

  void cancel_all() override {
    while (!observers_.empty()) {
      end(observers_.begin()->first, {.outcome = Outcome::kStopped});
    }
  }

  void run_until(TimePoint until) override {
    interrupted_ = false;
    while (!interrupted_ && !events_.empty() && events_.begin()->first <= until) {
      const auto event = events_.begin();
      now_ = std::max(now_, event->first);
      const Event todo = std::move(event->second);
      events_.erase(event);
      if (observers_.contains(todo.id)) {
        todo.run();
      }
    }
    if (!interrupted_) {
      now_ = std::max(now_, until);
    }
  }
  void interrupt() override { interrupted_ = true; }

 private:
  struct Event {
    uint64_t id;
    std::function<void()> run;
  };

  void at(TimePoint when, uint64_t id, std::function<void()> run) {
    events_.emplace(when, Event{id, std::move(run)});
  }

  void answer(uint64_t id, const std::string& body) {
    const size_t key = body.find("\"max_tokens\":");
    const int tokens = std::stoi(body.substr(key + 13));
    const auto words = static_cast<double>(std::count(body.begin(), body.end(), ' ') + 1);
    free_ = std::max(free_, now_) + prefill;
    for (int i = 0; i < tokens; ++i) {
      at(free_ + i * pace, id, [this, id] { observers_.at(id)->on_tokens(now_); });
    }
    AnswerEnd done;
    if (counts) {
      done.prompt_tokens = overhead + static_cast<int64_t>(words * tokens_per_word + 0.5);
      done.completion_tokens = tokens;
    }
    at(free_ + (tokens - 1) * pace, id, [this, id, done] { end(id, done); });
  }

  void end(uint64_t id, AnswerEnd end) {
    AnswerObserver* observer = observers_.at(id);
    observers_.erase(id);
    end.at = now_;
    observer->on_end(end);
  }

  TimePoint now_{1s};
  TimePoint free_{};  // when the last prompt so far is computed
  std::multimap<TimePoint, Event> events_;
  std::map<uint64_t, AnswerObserver*> observers_;
  uint64_t last_id_ = 0;
  bool interrupted_ = false;
};

}  // namespace baton::serve_bench
