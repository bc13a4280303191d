#pragma once

// A conversation: reads messages and commands, streams answers, keeps the history.

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "deploy/baton/chat_history.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/terminal_lines.h"
#include "deploy/baton/terminal_signals.h"

namespace baton::cli {

inline constexpr int kExitInterrupted = 130;  // Ctrl-C where nobody is asked what to do next

// What a session borrows.
struct ChatParts {
  RouterClient& server;  // made with the descriptor of `signals`
  LineReader& lines;
  TerminalSignals& signals;
  const Clock& clock;
  std::ostream& out;
  std::ostream& err;
  bool interactive = false;  // somebody sits there: prompts, times, Ctrl-C stops only the answer
};

class ChatSession {
 public:
  ChatSession(ChatParameters parameters, std::string system, const ChatParts& parts);

  // Until the input ends or somebody leaves. The exit status of the program: without somebody
  // sitting there the first answer that fails ends it with 1.
  int run();

  const ChatHistory& history() const { return history_; }

 private:
  enum class Next { kGoOn, kLeave };

  Next take(const InputLine& message);
  Next interrupted(int signal_number);
  Next command(std::string_view text);
  Next ask(const std::string& question);
  Answer stream(const std::string& question, std::string& text);
  // Drops the oldest turns after an answer that did not fit. Whether it is worth asking again.
  bool make_room();
  Next failed(const std::string& message);
  void show_times(const Answer& answer);
  void note(const std::string& line);

  const ChatParameters parameters_;
  const ChatParts parts_;
  ChatHistory history_;
  std::string unanswered_;   // the last question, when nothing of an answer came
  bool leave_next_ = false;  // Ctrl-C at the prompt, once
  int exit_status_ = 0;
  TimePoint asked_;
  TimePoint first_;
  TimePoint last_;
  int64_t pieces_ = 0;  // of text in the answer
};

}  // namespace baton::cli
