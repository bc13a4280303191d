#include "deploy/baton/chat_session.h"

#include <cstdio>
#include <ostream>
#include <utility>

#include "common/config/program_options.h"
#include "deploy/baton/terminal_text.h"

namespace baton::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kNextPrompt = "| ";

constexpr const char* kHelp =
    "/system TEXT  instructions for the model; without TEXT none\n"
    "/reset        forgets the conversation, keeps the instructions\n"
    "/retry        asks the last message again\n"
    "/quit         leaves, like Ctrl-D\n"
    "A message may have several lines: end each but the last with \\. // at its beginning stands "
    "for a /.\nCtrl-C stops an answer; twice at the prompt, it leaves.\n";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t from = text.find_first_not_of(kSpace);
  return from == std::string_view::npos
             ? ""
             : text.substr(from, text.find_last_not_of(kSpace) + 1 - from);
}

std::string turns(size_t count) {
  return std::to_string(count) + (count == 1 ? " turn" : " turns");
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

ChatSession::ChatSession(ChatParameters parameters, std::string system, const ChatParts& parts)
    : parameters_(std::move(parameters)), parts_(parts) {
  history_.set_system(std::move(system));
}

int ChatSession::run() {
  const std::string prompt = kPrompt;
  while (take(read_message(parts_.lines, prompt, kNextPrompt)) == Next::kGoOn) {
  }
  return exit_status_;
}

ChatSession::Next ChatSession::take(const InputLine& message) {
  if (message.end == LineEnd::kEnd) {
    return Next::kLeave;
  }
  if (message.end == LineEnd::kInterrupted) {
    return interrupted(message.signal_number);
  }
  leave_next_ = false;
  const std::string_view text = trimmed(message.text);
  if (text.empty()) {
    return Next::kGoOn;
  }
  if (text.starts_with("//")) {
    return ask(std::string(text.substr(1)));
  }
  return text.starts_with('/') ? command(text) : ask(message.text);
}

// Between answers.
ChatSession::Next ChatSession::interrupted(int signal_number) {
  if (signal_number != SIGINT) {
    return Next::kLeave;
  }
  if (!parts_.interactive) {
    exit_status_ = kExitInterrupted;
    return Next::kLeave;
  }
  if (std::exchange(leave_next_, true)) {
    return Next::kLeave;
  }
  note("Ctrl-C again, or Ctrl-D, leaves");
  return Next::kGoOn;
}

ChatSession::Next ChatSession::command(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(" \t\n"));
  const std::string_view rest = trimmed(text.substr(name.size()));
  if (name == "/quit" || name == "/exit") {
    return Next::kLeave;
  }
  if (name == "/help") {
    parts_.out << kHelp << std::flush;
  } else if (name == "/reset") {
    history_.clear();
    unanswered_.clear();
    note("the conversation is forgotten");
  } else if (name == "/system") {
    history_.set_system(std::string(rest));
    note(rest.empty() ? "no instructions" : "instructions set");
  } else if (name == "/retry") {
    if (!unanswered_.empty()) {
      return ask(std::string(unanswered_));
    }
    if (const auto last = history_.pop()) {
      return ask(last->question);
    }
    return failed("there is no message to ask again");
  } else {
    return failed("unknown command " + one_line(name) + "; /help lists them");
  }
  return Next::kGoOn;
}

ChatSession::Next ChatSession::ask(const std::string& question) {
  unanswered_ = question;
  std::string text;
  Answer answer = stream(question, text);
  while (answer.context_overflow && text.empty() && make_room()) {
    answer = stream(question, text);
  }
  // However it ended: what was seen is part of the conversation.
  if (!text.empty() || answer.status.ok()) {
    history_.add({question, text});
    unanswered_.clear();
  }
  if (!text.empty()) {
    parts_.out << (text.ends_with('\n') ? "" : "\n") << std::flush;
  }
  if (answer.status.code() == StatusCode::kCancelled) {
    const int signal_number = parts_.signals.take();
    if (!parts_.interactive || signal_number == SIGTERM) {
      exit_status_ = signal_number == SIGTERM ? config::kExitStopped : kExitInterrupted;
      return Next::kLeave;
    }
  }
  if (answer.status.ok() || answer.status.code() == StatusCode::kCancelled) {
    show_times(answer);
    return Next::kGoOn;
  }
  std::string message = one_line(answer.status.message());
  if (!text.empty()) {
    message = "the answer broke off: " + message;
  }
  return failed(message + (parts_.interactive ? " (/retry asks again)" : ""));
}

Answer ChatSession::stream(const std::string& question, std::string& text) {
  pieces_ = 0;
  asked_ = parts_.clock.now();
  return parts_.server.stream_answer(
      history_.request_body(parameters_, question), [this, &text](std::string_view more) {
        last_ = parts_.clock.now();
        first_ = pieces_ == 0 ? last_ : first_;
        ++pieces_;
        text += more;
        parts_.out << (parts_.interactive ? printable(more) : std::string(more)) << std::flush;
      });
}

bool ChatSession::make_room() {
  const size_t before = history_.turns().size();
  if (before == 0) {
    return false;
  }
  const size_t dropped = history_.drop_oldest();
  const std::string line =
      "the conversation does not fit the model's context any more: the oldest " +
      std::to_string(dropped) + " of " + turns(before) + " are left out";
  if (parts_.interactive) {
    note(line);
  } else {
    parts_.err << "baton: " << line << std::endl;
  }
  return true;
}

ChatSession::Next ChatSession::failed(const std::string& message) {
  parts_.err << "baton: " << message << std::endl;
  if (parts_.interactive) {
    return Next::kGoOn;
  }
  exit_status_ = config::kExitCannotStart;
  return Next::kLeave;
}

void ChatSession::show_times(const Answer& answer) {
  const bool stopped = answer.status.code() == StatusCode::kCancelled;
  if (pieces_ == 0) {
    note(stopped ? "stopped before the first token" : "an empty answer");
    return;
  }
  // A server that does not count, or was not asked to the end: about one token a piece.
  const int64_t tokens = answer.completion_tokens.value_or(pieces_);
  std::string line = formatted("TTFT %.0f ms", to_ms(first_ - asked_)) + ", " +
                     (answer.completion_tokens ? "" : "about ") + std::to_string(tokens) +
                     (tokens == 1 ? " token" : " tokens");
  if (tokens > 1 && last_ > first_) {
    line +=
        formatted(", %.1f tokens/s", static_cast<double>(tokens - 1) / to_seconds(last_ - first_));
  }
  line += stopped ? ", stopped" : answer.finish_reason == "length" ? ", cut at the limit" : "";
  note(line);
}

void ChatSession::note(const std::string& line) {
  if (parts_.interactive) {
    parts_.out << "[" << line << "]\n" << std::flush;
  }
}

}  // namespace baton::cli
