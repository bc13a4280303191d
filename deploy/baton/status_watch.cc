#include "deploy/baton/status_watch.h"

#include <ostream>
#include <string>

#include "common/config/program_options.h"
#include "deploy/baton/status_table.h"

namespace baton::cli {
namespace {

// A screen of its own, so that nothing that was on the terminal is lost, without a cursor.
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";

// From the top, over what is there: a screen that is cleared first would flicker.
std::string redrawn(const std::string& text, ScreenSize size) {
  std::string out = "\x1b[H";
  for (const char c : fit_screen(text, size)) {
    out += c == '\n' ? std::string("\x1b[K\r\n") : std::string(1, c);
  }
  return out + "\x1b[K\x1b[J";
}

class Watch {
 public:
  Watch(bool json, const WatchParts& parts) : json_(json), parts_(parts) {}
  ~Watch() { leave(); }

  int run(Duration interval) {
    for (bool first = true;; first = false) {
      const Result<ClusterStatus> status = parts_.ask();
      if (status.status().code() == StatusCode::kCancelled) {
        return config::kExitStopped;
      }
      if (!status.ok() && first) {
        parts_.err << "baton: " << one_line(status.status().message()) << std::endl;
        return config::kExitCannotStart;
      }
      show(status);
      if (parts_.wait(interval)) {
        return config::kExitStopped;
      }
    }
  }

 private:
  void show(const Result<ClusterStatus>& status) {
    if (const std::optional<ScreenSize> size = json_ ? std::nullopt : parts_.screen()) {
      if (!on_screen_) {
        parts_.out << kEnterScreen;
        on_screen_ = true;
      }
      last_ = status.ok()
                  ? status_table(*status)
                  : last_ok_ + "\nno answer now: " + one_line(status.status().message()) + "\n";
      last_ok_ = status.ok() ? last_ : last_ok_;
      parts_.out << redrawn(last_, *size) << std::flush;
    } else if (!status.ok()) {
      parts_.err << "baton: " << one_line(status.status().message()) << std::endl;
    } else if (json_) {
      parts_.out << status->json << std::endl;
    } else {
      parts_.out << separator_ << status_table(*status) << std::flush;
      separator_ = "\n";
    }
  }

  // What was seen last stays.
  void leave() {
    if (on_screen_) {
      parts_.out << kLeaveScreen << last_ << std::flush;
    }
  }

  const bool json_;
  const WatchParts& parts_;
  bool on_screen_ = false;
  std::string last_;
  std::string last_ok_;
  std::string separator_;
};

}  // namespace

int watch_status(Duration interval, bool json, const WatchParts& parts) {
  return Watch(json, parts).run(interval);
}

}  // namespace baton::cli
