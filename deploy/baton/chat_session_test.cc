#include "deploy/baton/chat_session.h"

#include <gmock/gmock.h>

#include <deque>
#include <sstream>

#include "common/base/bounded_queue.h"
#include "common/http/error.h"
#include "common/http/server.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string piece(const std::string& text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}
std::string ending(const std::string& reason, int tokens) {
  return "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"" + reason +
         "\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":" +
         std::to_string(tokens) + "}}\n\ndata: [DONE]\n\n";
}

// Somebody who types lines, presses Ctrl-C, and leaves.
class Typist final : public LineReader {
 public:
  InputLine read(const std::string& prompt) override {
    prompts += prompt;
    if (typed.empty()) {
      return {};
    }
    InputLine line = std::move(typed.front());
    typed.pop_front();
    return line;
  }
  void type(const std::string& text) { typed.push_back({LineEnd::kLine, text}); }
  void press_ctrl_c() { typed.push_back({LineEnd::kInterrupted, "", SIGINT}); }

  std::deque<InputLine> typed;
  std::string prompts;
};

// What was printed; something may happen once a text is seen.
class Screen final : public std::stringbuf {
 public:
  void when_shown(std::string text, std::function<void()> then) {
    text_ = std::move(text);
    then_ = std::move(then);
  }

 private:
  int sync() override {
    if (then_ && str().find(text_) != std::string::npos) {
      std::exchange(then_, {})();
    }
    return 0;
  }

  std::string text_;
  std::function<void()> then_;
};

using Reply = std::function<void(const std::shared_ptr<http::Responder>&)>;

// A session against a server that gives the replies one after the other.
class ChatSessionTest : public ::testing::Test {
 protected:
  ChatSessionTest() {
    auto started = http::Server::start(
        "127.0.0.1:0", {},
        [this](const http::Request& request, const std::shared_ptr<http::Responder>& responder) {
          (void)bodies_.try_push(std::string(request.body));
          const std::optional<Reply> reply = replies_.try_pop();
          if (reply) {
            (*reply)(responder);
          } else {
            responder->send(http::error_response(unavailable("no reply was prepared")));
          }
        });
    EXPECT_TRUE(started.ok());
    server_ = *std::move(started);
  }

  void reply(Reply with) { (void)replies_.try_push(std::move(with)); }
  void reply_stream(std::string bytes) {
    reply([bytes](const std::shared_ptr<http::Responder>& responder) {
      responder->begin_stream(200, {{"Content-Type", "text/event-stream"}});
      responder->write(bytes);
      responder->finish();
    });
  }
  void reply_error(int status, std::string message, std::string code) {
    reply([=](const std::shared_ptr<http::Responder>& responder) {
      responder->send(
          http::error_response(http::ApiError{status, message, "invalid_request_error", "", code}));
    });
  }

  int run(std::string system = "") {
    RouterClient client({server_->url(), ""}, 10s, signals_.fd());
    ChatSession session({.model = "m"}, std::move(system),
                        {.server = client,
                         .lines = typist_,
                         .signals = signals_,
                         .clock = clock_,
                         .out = out_,
                         .err = err_,
                         .interactive = interactive_});
    const int status = session.run();
    for (const ChatHistory::Turn& turn : session.history().turns()) {
      turns_.push_back(turn.question + " = " + turn.answer);
    }
    return status;
  }
  std::string out_text() const { return screen_.str(); }
  std::string next_body() {
    return bodies_.pop_until(std::chrono::steady_clock::now() + 5s).value_or("");
  }

  TerminalSignals signals_;  // first: the server's threads must not receive the signals
  SteadyClock clock_;
  Typist typist_;
  bool interactive_ = true;
  Screen screen_;
  std::ostream out_{&screen_};
  std::ostringstream err_;
  std::vector<std::string> turns_;
  BoundedQueue<Reply> replies_{QueueLimits{64}};
  BoundedQueue<std::string> bodies_{QueueLimits{64}};
  std::unique_ptr<http::Server> server_;  // last: its threads use the queues
};

TEST_F(ChatSessionTest, StreamsAnswersAndSendsTheHistory) {
  typist_.type("hello");
  typist_.type("");
  typist_.type("and?\nmore");
  reply_stream(piece("Hi") + piece(" there") + ending("stop", 3));
  reply_stream(piece("Yes.") + ending("length", 1));
  EXPECT_EQ(run("Be brief."), 0);
  EXPECT_THAT(out_text(), MatchesRegex("Hi there\n\\[TTFT [0-9]+ ms, 3 tokens(, [0-9.]+ "
                                       "tokens/s)?\\]\nYes.\n\\[TTFT [0-9]+ ms, 1 token, cut at "
                                       "the limit\\]\n"));
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(typist_.prompts, "> > > > ");
  EXPECT_THAT(next_body(), HasSubstr(R"("messages":[{"role":"system","content":"Be brief."},)"
                                     R"({"role":"user","content":"hello"}])"));
  EXPECT_THAT(next_body(), HasSubstr(R"({"role":"user","content":"hello"},)"
                                     R"({"role":"assistant","content":"Hi there"},)"
                                     R"({"role":"user","content":"and?\nmore"}],"stream":true)"));
}

TEST_F(ChatSessionTest, FromAPipeOnlyAnswersAreShown) {
  interactive_ = false;
  typist_.type("hello");
  typist_.type("again");
  reply_stream(piece("Hi\\u001b[1m") + ending("stop", 1));
  reply_stream(piece("Yes.\\n") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out_text(), "Hi\x1b[1m\nYes.\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(ChatSessionTest, FromAPipeTheFirstFailureEndsIt) {
  interactive_ = false;
  typist_.type("hello");
  typist_.type("again");
  reply_error(404, "no model m", "model_not_found");
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(out_text(), "");
  EXPECT_EQ(err_.str(), "baton: no model m\n");
  EXPECT_EQ(bodies_.size(), 1u);
}

TEST_F(ChatSessionTest, ATerminalObeysNothingThatTheModelSays) {
  typist_.type("hello");
  reply_stream(piece("Hi\\u001b[2J") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(out_text(), HasSubstr("Hi\uFFFD[2J\n"));
  EXPECT_THAT(turns_, ElementsAre("hello = Hi\x1b[2J")) << "the model's own words";
}

TEST_F(ChatSessionTest, CtrlCStopsTheAnswerAndNotTheProgram) {
  typist_.type("hello");
  typist_.type("go on");
  std::shared_ptr<http::Responder> held;
  // Shared: the callback may still be inside it when the wait has ended.
  const auto gone = std::make_shared<BoundedQueue<bool>>(QueueLimits{1});
  reply([&](const std::shared_ptr<http::Responder>& responder) {
    held = responder;
    responder->on_close([gone] { (void)gone->try_push(true); });
    responder->begin_stream(200, {});
    responder->write(piece("Once upon"));
  });
  reply_stream(piece(" a time") + ending("stop", 2));
  screen_.when_shown("Once upon", [] { raise(SIGINT); });
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(gone->pop_until(std::chrono::steady_clock::now() + 5s).value_or(false))
      << "the server sees that nobody listens";
  EXPECT_THAT(out_text(),
              MatchesRegex("Once upon\n\\[TTFT [0-9]+ ms, about 1 token, stopped\\]\n a "
                           "time\n\\[TTFT .*\\]\n"));
  EXPECT_EQ(err_.str(), "");
  EXPECT_THAT(turns_, ElementsAre("hello = Once upon", "go on =  a time"));
  next_body();
  EXPECT_THAT(next_body(), HasSubstr(R"({"role":"assistant","content":"Once upon"})"));
}

TEST_F(ChatSessionTest, SigtermInMidAnswerLeaves) {
  typist_.type("hello");
  typist_.type("never read");
  std::shared_ptr<http::Responder> held;
  reply([&](const std::shared_ptr<http::Responder>& responder) {
    held = responder;
    responder->begin_stream(200, {});
    responder->write(piece("Once upon"));
  });
  screen_.when_shown("Once upon", [] { raise(SIGTERM); });
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(typist_.typed.size(), 1u);
  server_->stop();  // before `held` is gone
}

TEST_F(ChatSessionTest, AnErrorEventIsOneLineAndThePartialAnswerStays) {
  typist_.type("hello");
  typist_.type("/retry");
  reply_stream(piece("Once") + "data: {\"error\":{\"message\":\"worker d0\\nis gone\"}}\n\n");
  reply_stream(piece("Twice") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(err_.str(), "baton: the answer broke off: worker d0 is gone (/retry asks again)\n");
  EXPECT_THAT(turns_, ElementsAre("hello = Twice"));
  next_body();
  EXPECT_THAT(next_body(), Not(HasSubstr("Once"))) << "a retry takes the answer back";
}

TEST_F(ChatSessionTest, AServerThatDiesInMidAnswerLeavesTheHistory) {
  typist_.type("hello");
  typist_.type("go on");
  typist_.type("go on");
  std::shared_ptr<http::Responder> held;
  reply([&held](const std::shared_ptr<http::Responder>& responder) {
    responder->begin_stream(200, {});
    held = responder;
    responder->write(piece("Once"));
  });
  screen_.when_shown("Once", [&held] { held.reset(); });  // the server lets go
  reply_error(503, "no worker", "unavailable");
  reply_stream(piece("upon") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(err_.str(), MatchesRegex("baton: the answer broke off: http://[^\n]+ \\(/retry asks "
                                       "again\\)\nbaton: no worker \\(/retry asks again\\)\n"));
  EXPECT_THAT(turns_, ElementsAre("hello = Once", "go on = upon"));
}

TEST_F(ChatSessionTest, AServerThatIsGoneIsOneLine) {
  server_->stop();
  typist_.type("hello");
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(err_.str(), HasSubstr("connection refused; is the server running? (/retry asks"));
  EXPECT_THAT(turns_, ElementsAre());
}

TEST_F(ChatSessionTest, AFullContextDropsTheOldestTurns) {
  typist_.type("1");
  typist_.type("2");
  typist_.type("3");
  typist_.type("4");
  for (int i = 0; i < 3; ++i) {
    reply_stream(piece("a") + ending("stop", 1));
  }
  reply_error(400, "too long", "context_length_exceeded");
  reply_error(400, "too long", "context_length_exceeded");
  reply_stream(piece("b") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(out_text(), HasSubstr("[the conversation does not fit the model's context any more: "
                                    "the oldest 2 of 3 turns are left out]\n"));
  EXPECT_THAT(out_text(), HasSubstr("the oldest 1 of 1 turn are left out]\n"));
  EXPECT_THAT(turns_, ElementsAre("4 = b"));
}

TEST_F(ChatSessionTest, AMessageThatNeverFitsIsRefusedInTheServersWords) {
  typist_.type("long");
  reply_error(400, "maximum context length is 8 tokens", "context_length_exceeded");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(err_.str(), "baton: maximum context length is 8 tokens (/retry asks again)\n");
  EXPECT_THAT(turns_, ElementsAre());
}

TEST_F(ChatSessionTest, ObeysCommands) {
  typist_.type("/help");
  typist_.type("/system  Speak French. ");
  typist_.type("bonjour");
  typist_.type("/reset");
  typist_.type("/system");
  typist_.type("//usr is a folder");
  typist_.type("/nothing");
  typist_.type("/quit");
  typist_.type("never read");
  reply_stream(piece("Salut") + ending("stop", 1));
  reply_stream(piece("It is") + ending("stop", 1));
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(out_text(), HasSubstr("/retry        asks the last message again\n"));
  EXPECT_THAT(out_text(), HasSubstr("[instructions set]\n"));
  EXPECT_EQ(err_.str(), "baton: unknown command /nothing; /help lists them\n");
  EXPECT_THAT(next_body(), HasSubstr(R"("messages":[{"role":"system","content":"Speak French."})"));
  EXPECT_THAT(next_body(),
              HasSubstr(R"("messages":[{"role":"user","content":"/usr is a folder"}])"));
  EXPECT_THAT(turns_, ElementsAre("/usr is a folder = It is"));
}

TEST_F(ChatSessionTest, ThereIsNothingToRetryAtFirst) {
  typist_.type("/retry");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(err_.str(), "baton: there is no message to ask again\n");
}

TEST_F(ChatSessionTest, ASecondCtrlCAtThePromptLeaves) {
  typist_.press_ctrl_c();
  typist_.type("/help");
  typist_.press_ctrl_c();
  typist_.press_ctrl_c();
  typist_.type("never read");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(typist_.typed.size(), 1u);
  EXPECT_THAT(out_text(), HasSubstr("[Ctrl-C again, or Ctrl-D, leaves]\n"));
}

TEST_F(ChatSessionTest, SigtermLeaves) {
  typist_.typed.push_back({LineEnd::kInterrupted, "", SIGTERM});
  typist_.type("never read");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(typist_.typed.size(), 1u);
}

TEST_F(ChatSessionTest, FromAPipeCtrlCEndsItWith130) {
  interactive_ = false;
  typist_.press_ctrl_c();
  EXPECT_EQ(run(), kExitInterrupted);
  typist_.type("hello");
  raise(SIGINT);
  reply_stream(piece("never seen") + ending("stop", 1));
  EXPECT_EQ(run(), kExitInterrupted);
  EXPECT_EQ(out_text(), "");
  EXPECT_EQ(err_.str(), "");
}

}  // namespace
}  // namespace baton::cli
