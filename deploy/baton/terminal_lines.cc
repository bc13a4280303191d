#include "deploy/baton/terminal_lines.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace baton::cli {
namespace {

// A person or a script may take its time; the wait is only cut so that it has an end.
constexpr Duration kLongWait = 1h;

}  // namespace

InputLine PlainLines::read(const std::string& /*prompt*/) {
  while (true) {
    if (const int number = signals_.take()) {
      return {LineEnd::kInterrupted, "", number};
    }
    const size_t end = pending_.find('\n');
    if (end != std::string::npos || (ended_ && !pending_.empty())) {
      InputLine line{LineEnd::kLine, pending_.substr(0, end)};
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.text.ends_with('\r')) {
        line.text.pop_back();
      }
      return line;
    }
    if (ended_) {
      return {};
    }
    if (signals_.wait(kLongWait, fd_) != WokenBy::kInput) {
      continue;
    }
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n > 0) {
      pending_.append(buffer.data(), static_cast<size_t>(n));
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      ended_ = true;
    }
  }
}

InputLine read_message(LineReader& lines, const std::string& prompt,
                       const std::string& next_prompt) {
  InputLine message = lines.read(prompt);
  while (message.end == LineEnd::kLine && message.text.ends_with('\\')) {
    message.text.back() = '\n';
    InputLine more = lines.read(next_prompt);
    more.text.insert(0, message.text);
    if (more.end == LineEnd::kEnd) {
      more = {LineEnd::kLine, message.text};
      more.text.pop_back();  // a pipe that ends in a backslash: what was there is the message
    }
    message = std::move(more);
  }
  return message;
}

}  // namespace baton::cli
