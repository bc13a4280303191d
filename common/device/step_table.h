#pragma once

// Which workers of one machine run a step at this moment: a small table in memory that `baton up`
// makes and the workers that it starts share. Each worker writes one line of it, its own, and reads
// those of others before it uses their CPUs (compute_team.h). There is no lock in it. A worker that
// is killed in a step leaves its line marked; who notices the death clears it with release(), and
// until then nobody uses that worker's CPUs. A line also tells how much work waits at its worker,
// so that others may give way.
//
// The memory is a sealed memfd: nobody can shorten it under a reader. Whatever its words hold, a
// reader only ever takes a worker for busy or for idle.

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace baton::device {

class StepTable final {
 public:
  static constexpr int kMaxSlots = 64;

  // kInternal if the system refuses.
  static Result<StepTable> create();
  // The table behind a path such as /proc/17/fd/5. kNotFound, kInvalidArgument: not such a table.
  static Result<StepTable> open(const std::string& path);

  StepTable(StepTable&& other) noexcept;
  StepTable& operator=(StepTable&& other) noexcept;
  StepTable(const StepTable&) = delete;
  StepTable& operator=(const StepTable&) = delete;
  ~StepTable();

  int fd() const { return fd_.get(); }  // close-on-exec; -1 of an opened table

  // For the owner of a slot, 0..kMaxSlots-1: its step begins or has ended. Both may be repeated.
  void begin(int slot);
  void end(int slot, TimePoint now);
  // The owner has nothing to compute, or gives way until its next step: its CPUs are free at once,
  // and those that wait for them are woken.
  void rest(int slot);
  // The same, and nothing waits at it: it is gone.
  void release(int slot);
  // For the owner: how long it will take to do what waits behind its step.
  void set_waiting(int slot, Duration waiting);
  // The longest of all other slots.
  Duration longest_waiting(int own_slot) const;

  bool running(int slot) const;
  bool any_running() const;
  // No step runs, and none has run for `quiet`. Of a slot that has never had a step: true.
  bool idle(int slot, Duration quiet, TimePoint now) const;

  // For borrowers: sleeps until the owner rests, for `most` at the longest. `seen` is what rests()
  // said before the borrower found the slot not idle.
  uint32_t rests(int slot) const;
  void wait_for_rest(int slot, uint32_t seen, Duration most) const;

 private:
  struct Layout;
  StepTable(Layout* layout, FileDescriptor fd) : layout_(layout), fd_(std::move(fd)) {}
  void unmap();

  Layout* layout_ = nullptr;
  FileDescriptor fd_;
};

}  // namespace baton::device
