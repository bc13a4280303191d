#pragma once

// Answers at once with what a test says; a host that is not there does not resolve.

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/worker/resolver.h"

namespace baton::worker {

class FakeResolver final : public Resolver {
 public:
  bool ask(const std::string& host) override {
    ++asked;
    const auto found = answers.find(host);
    Result<std::vector<std::string>> addresses = not_found("no such name");
    if (found != answers.end()) {
      addresses = found->second;
    }
    ready_.push_back({host, std::move(addresses)});
    return true;
  }
  std::optional<Answer> take() override {
    if (ready_.empty()) {
      return std::nullopt;
    }
    Answer answer = std::move(ready_.front());
    ready_.pop_front();
    return answer;
  }

  std::map<std::string, std::vector<std::string>> answers;
  int asked = 0;

 private:
  std::deque<Answer> ready_;
};

}  // namespace baton::worker
