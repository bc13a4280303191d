#include "common/wire/admission.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace baton::wire {
namespace {

constexpr const char* kQuestions = "inproc://zeromq.zap.01";
// Of a question: version, request id, domain, address, identity, mechanism, credentials.
constexpr size_t kRequestId = 1;
constexpr size_t kMechanism = 5;
constexpr size_t kCredentials = 6;
constexpr size_t kFrames = 7;

std::vector<std::string> receive_all(void* socket) {
  std::vector<std::string> frames;
  int more = 1;
  while (more != 0) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&frame);
      return {};
    }
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
    more = zmq_msg_more(&frame);
    zmq_msg_close(&frame);
  }
  return frames;
}

}  // namespace

// Bound here, so that it is there before any listener asks; the thread's start hands it over.
Admission::Admission(void* context, const CurveKey& member)
    : member_(member), socket_(zmq_socket(context, ZMQ_REP)), stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  BATON_CHECK(socket_ != nullptr && stop_fd_ >= 0, "admission starts");
  BATON_CHECK(zmq_bind(socket_, kQuestions) == 0, zmq_strerror(zmq_errno()));
  thread_ = std::jthread([this] { run(); });
}

Admission::~Admission() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_, &one, sizeof(one));
  thread_.join();
  ::close(stop_fd_);
}

void Admission::run() {
  pthread_setname_np(pthread_self(), "admission");
  std::array<zmq_pollitem_t, 2> items{
      {{socket_, 0, ZMQ_POLLIN, 0}, {nullptr, stop_fd_, ZMQ_POLLIN, 0}}};
  while (true) {
    if (zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0 && zmq_errno() != EINTR) {
      break;
    }
    if (items[1].revents != 0) {
      break;
    }
    if (items[0].revents != 0) {
      answer();
    }
  }
  zmq_close(socket_);
}

void Admission::answer() {
  const std::vector<std::string> question = receive_all(socket_);
  if (question.empty()) {
    return;
  }
  const bool member = question.size() == kFrames && question[kMechanism] == "CURVE" &&
                      question[kCredentials].size() == member_.size() &&
                      std::equal(member_.begin(), member_.end(),
                                 reinterpret_cast<const uint8_t*>(question[kCredentials].data()));
  const std::string id = question.size() > kRequestId ? question[kRequestId] : std::string();
  // Version, request id, status, text, user, metadata.
  const std::array<std::string, 6> reply = {
      "1.0", id, member ? "200" : "400", member ? "" : "not a member", "", ""};
  for (size_t i = 0; i < reply.size(); ++i) {
    zmq_send(socket_, reply[i].data(), reply[i].size(),
             ZMQ_DONTWAIT | (i + 1 < reply.size() ? ZMQ_SNDMORE : 0));
  }
}

}  // namespace baton::wire
