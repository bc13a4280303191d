#pragma once

// Lets members in: ZeroMQ asks for each peer that has finished the CURVE handshake (ZAP, RFC 27),
// and the answer is yes for the cluster's member key only. It has a thread of its own, because the
// question is asked of one place in a process while listeners belong to several threads.

#include <thread>

#include "common/wire/cluster_key.h"

namespace baton::wire {

class Admission {
 public:
  // Before the first listener of the ZeroMQ context, which must outlive it.
  Admission(void* context, const CurveKey& member);
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

 private:
  void run();
  void answer();

  const CurveKey member_;
  void* socket_;
  const int stop_fd_;
  std::jthread thread_;
};

}  // namespace baton::wire
