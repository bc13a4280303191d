#include "deploy/baton/terminal_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <string>
#include <string_view>

namespace baton::cli {
namespace {

constexpr Duration kLongWait = 1h;
constexpr int kHistoryLines = 1000;

// What terminals put around pasted text once they are asked to.
constexpr std::string_view kAskForPasteMarks = "\x1b[?2004h";
constexpr std::string_view kNoPasteMarks = "\x1b[?2004l";
constexpr std::string_view kPasteBegins = "\x1b[200~";
constexpr std::string_view kPasteEnds = "\x1b[201~";

// libedit reads and shows characters in the locale's encoding; without one, UTF-8 is what terminals
// send today.
void choose_encoding() {
  setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    setlocale(LC_CTYPE, "C.UTF-8");
  }
}

void write_terminal(std::string_view bytes) {
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
}

}  // namespace

struct TerminalEditor::Impl {
  explicit Impl(TerminalSignals& terminal_signals) : signals(terminal_signals) {}

  static Impl& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Impl*>(data);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  // 1: a character; 0: the end; -1: a signal.
  static int next_character(EditLine* editor, wchar_t* out) { return of(editor).next(out); }

  // The next byte, or -1: `signal_number` is set, or the terminal is gone.
  int next_byte() {
    if (unread_at < unread.size()) {
      return static_cast<unsigned char>(unread[unread_at++]);
    }
    while (true) {
      const WokenBy woken = signals.wait(kLongWait, STDIN_FILENO);
      if (woken == WokenBy::kSignal) {
        signal_number = signals.take();
        return -1;
      }
      if (woken == WokenBy::kTime) {
        continue;
      }
      unsigned char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n == 1) {
        return byte;
      }
      if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        return -1;
      }
    }
  }

  // Whether the bytes after an escape are the rest of `mark`; if not they are read again as what
  // they are.
  bool follows(std::string_view mark) {
    std::string seen;
    for (const char expected : mark.substr(1)) {
      const int byte = next_byte();
      if (byte < 0) {
        break;
      }
      seen += static_cast<char>(byte);
      if (seen.back() != expected) {
        break;
      }
    }
    if (seen == mark.substr(1)) {
      return true;
    }
    unread.replace(0, unread_at, seen);
    unread_at = 0;
    return false;
  }

  int next(wchar_t* out) {
    if (line_feed_follows) {
      line_feed_follows = false;
      *out = L'\n';
      return 1;
    }
    std::mbstate_t state{};
    while (true) {
      const int byte = next_byte();
      if (byte < 0) {
        return signal_number != 0 ? -1 : 0;
      }
      if (byte == 0x1B && bracket_follows() && follows(pasting ? kPasteEnds : kPasteBegins)) {
        pasting = !pasting;
        continue;
      }
      if (pasting && (byte == '\r' || byte == '\n')) {
        line_feed_follows = true;
        *out = L'\\';
        return 1;
      }
      const char c = static_cast<char>(byte);
      const size_t taken = std::mbrtowc(out, &c, 1, &state);
      if (taken == 0 || taken == 1) {
        return 1;
      }
      if (taken == static_cast<size_t>(-1)) {
        state = {};  // no character of this encoding: left out
      }
    }
  }

  // An escape alone is a key; only a sequence is worth waiting for its rest.
  bool bracket_follows() {
    constexpr Duration kSequence = 20ms;
    if (unread_at >= unread.size() && signals.wait(kSequence, STDIN_FILENO) != WokenBy::kInput) {
      return false;
    }
    const int byte = next_byte();
    if (byte >= 0) {
      unread.replace(0, unread_at, 1, static_cast<char>(byte));
      unread_at = 0;
    }
    return byte == '[';
  }

  TerminalSignals& signals;
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  std::string unread;  // bytes that were looked at too early
  size_t unread_at = 0;
  bool pasting = false;
  bool line_feed_follows = false;
  int signal_number = 0;
};

TerminalEditor::TerminalEditor(TerminalSignals& signals) : impl_(std::make_unique<Impl>(signals)) {
  choose_encoding();
  impl_->editor = el_init("baton", stdin, stdout, stderr);
  impl_->history = history_init();
  HistEvent event;
  history(impl_->history, &event, H_SETSIZE, kHistoryLines);
  history(impl_->history, &event, H_SETUNIQUE, 1);
  EditLine* editor = impl_->editor;
  el_set(editor, EL_CLIENTDATA, impl_.get());
  el_set(editor, EL_GETCFN, &Impl::next_character);
  el_set(editor, EL_PROMPT, &Impl::show_prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, impl_->history);
  el_set(editor, EL_SIGNAL, 1);  // Ctrl-Z and another window size
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

TerminalEditor::~TerminalEditor() {
  history_end(impl_->history);
  el_end(impl_->editor);
}

InputLine TerminalEditor::read(const std::string& prompt) {
  impl_->prompt = prompt;
  impl_->signal_number = 0;
  el_resize(impl_->editor);
  write_terminal(kAskForPasteMarks);
  int count = 0;
  const char* text = el_gets(impl_->editor, &count);
  write_terminal(kNoPasteMarks);
  if (impl_->signal_number != 0) {
    el_reset(impl_->editor);
    write_terminal(impl_->signal_number == SIGINT ? "^C\r\n" : "\r\n");
    return {LineEnd::kInterrupted, "", impl_->signal_number};
  }
  if (text == nullptr || count <= 0) {
    write_terminal("\r\n");
    return {};
  }
  InputLine line{LineEnd::kLine, std::string(text, static_cast<size_t>(count))};
  while (line.text.ends_with('\n') || line.text.ends_with('\r')) {
    line.text.pop_back();
  }
  if (!line.text.empty()) {
    HistEvent event;
    history(impl_->history, &event, H_ENTER, line.text.c_str());
  }
  return line;
}

}  // namespace baton::cli
