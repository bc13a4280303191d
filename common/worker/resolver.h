#pragma once

// Names of hosts to addresses, without blocking whoever asks.

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/status.h"

namespace baton::worker {

class Resolver {
 public:
  virtual ~Resolver() = default;
  struct Answer {
    std::string host;
    // Numeric: 10.0.0.1, fd00::1; each once. not_found when there are none.
    Result<std::vector<std::string>> addresses;
  };
  // One question a host at a time; the answer comes from take(), some time later. False: ask again.
  virtual bool ask(const std::string& host) = 0;
  virtual std::optional<Answer> take() = 0;
};

// The system's: /etc/hosts, DNS. One thread, started by the first question. Its end waits for the
// question under way: some seconds where no name server answers.
class SystemResolver final : public Resolver {
 public:
  SystemResolver();
  ~SystemResolver() override;
  bool ask(const std::string& host) override;
  std::optional<Answer> take() override;

 private:
  void run();

  BoundedQueue<std::string> questions_;
  BoundedQueue<Answer> answers_;
  std::jthread thread_;
};

}  // namespace baton::worker
