#pragma once

// One client connection and the I/O thread that it lives on. Internal to common/http.
//
//   kIdle --bytes--> kReading --request complete--> kHandling --response sent--> kIdle | kLingering
//     any --refused input--> kRefusing --error sent--> kLingering --peer closed, or 2 s--> kClosed
//
// A socket is always waited on for reading, except when too many pipelined bytes are held, so that
// a client that goes away is noticed while its request is with a worker.

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "common/base/mutex.h"
#include "common/http/exchange.h"
#include "common/http/parser.h"
#include "common/http/server.h"
#include "common/http/tls_session.h"

namespace baton::http {

class Connection;

// How many connections there are, for the limit and for drain().
class ConnectionCount {
 public:
  size_t add();
  void remove();
  size_t value() const;
  bool wait_until_none(TimePoint deadline);

 private:
  mutable Mutex mutex_;
  CondVar none_;
  size_t count_ GUARDED_BY(mutex_) = 0;
};

// What all connections of a server share, immutable after start except for the flag.
struct ServerShared {
  ServerOptions options;
  Handler handler;
  ConnectionCount count;
  std::atomic<bool> draining{false};
};

// One io_context and its thread. Connections hold it, so that it outlives their sockets.
class IoLoop {
 public:
  IoLoop();
  void start(const std::string& thread_name);
  // Runs `task` on the thread; false (and not run) after stop() was called.
  bool post(std::function<void()> task);
  // Closes every connection and ends the thread. Not from the thread itself.
  void stop();
  // Closes idle connections that no request is on its way to; others close after their response.
  void drain();
  bool on_thread() const { return std::this_thread::get_id() == thread_id_; }

  boost::asio::io_context& context() { return context_; }
  std::array<char, 64 * 1024>& scratch() { return scratch_; }  // for reads on the thread
  std::unordered_set<std::shared_ptr<Connection>>& connections() { return connections_; }

 private:
  boost::asio::io_context context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_;
  std::thread thread_;
  std::thread::id thread_id_;
  std::array<char, 64 * 1024> scratch_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;  // owned by the thread
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

// All members are used on the loop's thread only, except those of OutputSink.
class Connection final : public OutputSink, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<IoLoop> loop, std::shared_ptr<ServerShared> shared,
             boost::asio::ip::tcp::socket socket);
  ~Connection() override;

  void start(bool over_limit);
  void drain();
  void close();
  void wake() override;
  Response abandoned_response() override;

 private:
  enum class State { kIdle, kReading, kHandling, kRefusing, kLingering, kClosed };

  void wait_readable();
  void on_readable();
  bool read_some();
  // What the client sent, what it is sent, through TLS where there is TLS; would_block as a socket.
  size_t receive(std::span<char> into, boost::system::error_code& ec);
  size_t transmit(std::string_view bytes, boost::system::error_code& ec);
  void refuse_handshake(TlsSession::Outcome outcome, boost::system::error_code& ec);
  void process_input();
  void feed();
  void handle_request();
  void refuse(int http_status, const std::string& message);
  void on_output();
  void take_output();
  void queue(std::string piece);
  void flush();
  void wait_writable();
  void response_done(bool keep_alive);
  void linger();
  void drain_idle();
  void become_idle();
  Response own_answer(Response response, const Request& request) const;
  void set_deadline(Duration from_now);
  void clear_deadline();
  void arm_timer();
  void on_deadline();

  // Declared first: everything below uses its io_context.
  const std::shared_ptr<IoLoop> loop_;
  const std::shared_ptr<ServerShared> shared_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;
  boost::asio::steady_timer timer_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<std::chrono::steady_clock::time_point> armed_;
  State state_ = State::kIdle;
  std::string peer_address_;
  std::string input_;
  std::optional<RequestParser> parser_;
  ParseState parsed_ = ParseState::kHeader;
  size_t body_received_ = 0;
  std::shared_ptr<Exchange> exchange_;
  bool response_taken_ = false;  // the exchange has given its last piece
  bool keep_alive_ = false;      // valid when response_taken_
  std::deque<std::string> output_;
  size_t output_offset_ = 0;  // sent bytes of output_.front()
  size_t lingered_bytes_ = 0;
  bool fresh_ = true;  // no request has come yet
  bool reading_ = false;
  bool peer_done_ = false;    // has closed its side; only a response on its way out is left
  bool writing_ = false;      // waits for the socket to take more
  bool dispatching_ = false;  // output is flushed after the handler returns
  std::atomic<bool> wake_posted_{false};
};

}  // namespace baton::http
