#include "deploy/baton/up.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "common/config/program_options.h"
#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

// A router that knows the workers whose pids lie in the folder of the programs, and says what a
// model would say.
constexpr const char* kRouter = R"(#!/usr/bin/env python3
import http.server, json, os, signal, sys, threading
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
listen = [a for a in sys.argv if a.startswith("router.listen=")][-1].split("=")[1]
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
    def do_GET(self):
        if self.path == "/readyz": return self.answer(200, "")
        workers = [{"name": n[4:], "role": "decode", "state": "ready",
                    "pid": int(open(os.path.join(folder, n)).read()),
                    "metrics_url": "http://" + n[4:]}
                   for n in os.listdir(folder) if n.startswith("pid-")]
        self.answer(200, json.dumps({"workers": workers, "links": []}))
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if os.path.exists(os.path.join(folder, "refuse")):
            return self.answer(503, json.dumps({"error": {"message": "no worker"}}))
        chunk = {"choices": [{"delta": {"content": "Hello!"}}],
                 "baton": {"prefill": "p0", "decode": "d0", "transport": "ucx-posix",
                           "prefill_ms": 31, "transfer_ms": 3, "transfer_visible_ms": 0.24,
                           "prompt_tokens_computed": 412, "transfer_bytes": 9100000}}
        self.answer(200, "data: " + json.dumps(chunk) + "\n\ndata: [DONE]\n\n")
host, port = listen.split(":")
server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
)";

constexpr const char* kWorker = R"(#!/bin/sh
words="$*"
while [ "$1" != --name ]; do shift; done
folder=$(dirname "$0")
echo "$words" > "$folder/words-$2"
trap 'exit 0' TERM
echo $$ > "$folder/new-$2"
mv "$folder/new-$2" "$folder/pid-$2"
while :; do sleep 0.01; done
)";

class UpTest : public ::testing::Test {
 protected:
  UpTest() {
    program("baton-router", kRouter);
    program("baton-prefill", kWorker);
    program("baton-decode", kWorker);
    options_.port = 0;
    options_.ready_file = folder_.path("ready");
  }
  void program(const std::string& name, const std::string& text) {
    std::filesystem::permissions(folder_.write(name, text), std::filesystem::perms::owner_exec,
                                 std::filesystem::perm_options::add);
  }
  // The exit status of `baton up` in a process of its own, which run_up takes for granted.
  int run() {
    const pid_t pid = fork();
    if (pid == 0) {
      if (std::freopen(folder_.path("out").c_str(), "w", stdout) == nullptr ||
          std::freopen(folder_.path("err").c_str(), "w", stderr) == nullptr) {
        _exit(99);
      }
      const int exit_status =
          run_up(options_, std::filesystem::path(options_.ready_file).parent_path());
      std::fflush(nullptr);
      _exit(exit_status);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TempFolder folder_;
  UpOptions options_;
};

TEST_F(UpTest, ShowsAFirstAnswerAndStops) {
  options_.first_answer = true;
  options_.once = true;
  EXPECT_EQ(run(), config::kExitStopped) << folder_.read("err");
  const std::string out = folder_.read("out");
  EXPECT_NE(out.find("> Why is the sky blue?\nHello!\n"), std::string::npos) << out;
  EXPECT_NE(out.find("prefill p0 (412 tokens, 31 ms) -> 9.1 MB over ucx-posix (3 ms, 92 % hidden) "
                     "-> decode d0\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("try: curl -N http://127.0.0.1:"), std::string::npos) << out;
  EXPECT_FALSE(folder_.has("ready"));  // its processes are gone
}

TEST_F(UpTest, TellsTheWorkersOfTheTableInWhichTheySayWhenTheyCompute) {
  options_.once = true;
  EXPECT_EQ(run(), config::kExitStopped) << folder_.read("err");
  const std::string words = folder_.read("words-p0");
  EXPECT_NE(words.find("--set workers.lend_cpus=/proc/"), std::string::npos) << words;
  EXPECT_EQ(words.substr(words.find("--set workers.lend")),
            folder_.read("words-d0").substr(folder_.read("words-d0").find("--set workers.lend")));
  options_.overrides = {"workers.lend_cpus=off"};
  EXPECT_EQ(run(), config::kExitStopped) << folder_.read("err");
  EXPECT_EQ(folder_.read("words-p0").find("lend_cpus=/proc"), std::string::npos);
}

TEST_F(UpTest, FailsWhenTheFirstAnswerDoes) {
  folder_.write("refuse", "");
  options_.first_answer = true;
  options_.once = true;
  EXPECT_EQ(run(), config::kExitCannotStart);
  EXPECT_NE(folder_.read("err").find("no worker"), std::string::npos);
}

TEST_F(UpTest, EndsWithTheWordsOfAProgramThatCannotStart) {
  program("baton-decode", "#!/bin/sh\necho 'no such model' >&2; exit 1\n");
  EXPECT_EQ(run(), config::kExitCannotStart);
  EXPECT_NE(folder_.read("err").find("no such model"), std::string::npos);
}

TEST_F(UpTest, SaysWhatIsWrongBeforeItStartsAnything) {
  options_.overrides = {"router.nothing=1"};
  EXPECT_EQ(run(), config::kExitCannotStart);
  EXPECT_TRUE(folder_.read("err").starts_with("baton: ")) << folder_.read("err");
  options_.overrides.clear();
  options_.log_level = "loud";
  EXPECT_EQ(run(), config::kExitUsage);
}

}  // namespace
}  // namespace baton::cli
