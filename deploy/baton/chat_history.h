#pragma once

// What was said in a conversation, and the request that goes on with it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::cli {

struct ChatParameters {
  std::string model;
  std::optional<int64_t> max_tokens{};
  std::optional<double> temperature{};
  std::optional<int64_t> seed{};
};

class ChatHistory {
 public:
  // A question and the answer to it, as far as it came.
  struct Turn {
    std::string question;
    std::string answer;
  };

  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  const std::vector<Turn>& turns() const { return turns_; }

  void add(Turn turn) { turns_.push_back(std::move(turn)); }
  // The last turn is taken back.
  std::optional<Turn> pop();
  // Half of the turns, the oldest, rounded up: what is left has room for an answer. How many.
  size_t drop_oldest();
  void clear() { turns_.clear(); }

  // The body of a streamed chat completion that asks `question` after all of this.
  std::string request_body(const ChatParameters& parameters, const std::string& question) const;

 private:
  std::string system_;
  std::vector<Turn> turns_;
};

}  // namespace baton::cli
