#include "common/device/step_table.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <system_error>
#include <utility>

#include "common/base/check.h"

namespace baton::device {
namespace {

constexpr uint64_t kMagic = 0x3153504554534E42;  // "BNSTEPS1"
constexpr size_t kCacheLine = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct alignas(kCacheLine) Slot {
  std::atomic<uint32_t> running;
  std::atomic<int64_t> ended_ns;  // of the steady clock, which all processes share; 0: never
  std::atomic<int64_t> waiting_ns;
  std::atomic<uint32_t> rests;  // counts them; borrowers sleep on it
  std::atomic<uint32_t>
      sleepers;  // a wrong number costs a system call, or a borrower its time limit
};
static_assert(std::atomic<int64_t>::is_always_lock_free);
static_assert(sizeof(Slot) == kCacheLine && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

Status failed(const std::string& what, int error) {
  return internal_error("the table of running steps: " + what + ": " +
                        std::generic_category().message(error));
}

Status is_none(const std::string& path) {
  return invalid_argument(path + " is not a table of running steps");
}

}  // namespace

struct StepTable::Layout {
  uint64_t magic;
  std::array<Slot, kMaxSlots> lines;
};

namespace {

constexpr size_t kBytes = 64 + kCacheLine * StepTable::kMaxSlots;

void* map(int fd) {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Result<StepTable> StepTable::create() {
  static_assert(sizeof(Layout) == kBytes);
  StepTable table(nullptr,
                  FileDescriptor(memfd_create("baton-steps", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!table.fd_.open()) {
    return failed("memfd_create", errno);
  }
  if (ftruncate(table.fd(), kBytes) != 0 || fcntl(table.fd(), F_ADD_SEALS, kSeals) != 0) {
    return failed("memfd", errno);
  }
  table.layout_ = static_cast<Layout*>(map(table.fd()));
  if (table.layout_ == nullptr) {
    return failed("mmap", errno);
  }
  table.layout_->magic = kMagic;
  return table;
}

Result<StepTable> StepTable::open(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) {
    return not_found("cannot open the table of running steps " + path + ": " +
                     std::generic_category().message(errno));
  }
  struct stat info = {};
  const bool fits = fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_size == static_cast<off_t>(kBytes) &&
                    (fcntl(file.get(), F_GET_SEALS) & F_SEAL_SHRINK) != 0 &&
                    fcntl(file.get(), F_GET_SEALS) != -1;
  auto* layout = fits ? static_cast<Layout*>(map(file.get())) : nullptr;
  if (layout == nullptr) {
    return is_none(path);
  }
  StepTable table(layout, FileDescriptor());
  return layout->magic == kMagic ? Result<StepTable>(std::move(table)) : is_none(path);
}

StepTable::StepTable(StepTable&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)), fd_(std::move(other.fd_)) {}

StepTable& StepTable::operator=(StepTable&& other) noexcept {
  if (this != &other) {
    unmap();
    layout_ = std::exchange(other.layout_, nullptr);
    fd_ = std::move(other.fd_);
  }
  return *this;
}

StepTable::~StepTable() { unmap(); }

void StepTable::unmap() {
  if (layout_ != nullptr) {
    munmap(layout_, kBytes);
  }
  fd_.reset();
}

// Sequential consistency: "I begin" must be out before the owner's threads look for the CPU.
void StepTable::begin(int slot) {
  BATON_CHECK(slot >= 0 && slot < kMaxSlots, "a slot of the table");
  layout_->lines[static_cast<size_t>(slot)].running.store(1, std::memory_order_seq_cst);
}

void StepTable::end(int slot, TimePoint now) {
  BATON_CHECK(slot >= 0 && slot < kMaxSlots, "a slot of the table");
  Slot& line = layout_->lines[static_cast<size_t>(slot)];
  line.ended_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  line.running.store(0, std::memory_order_release);  // whoever sees it sees the time, too
}

void StepTable::rest(int slot) {
  BATON_CHECK(slot >= 0 && slot < kMaxSlots, "a slot of the table");
  Slot& line = layout_->lines[static_cast<size_t>(slot)];
  line.ended_ns.store(0, std::memory_order_relaxed);
  line.running.store(0, std::memory_order_release);
  // Either this sees the sleeper, or the kernel sees the new value: both sides write one word and
  // then read the other.
  line.rests.fetch_add(1, std::memory_order_seq_cst);
  if (line.sleepers.load(std::memory_order_seq_cst) != 0) {
    // Not of this process alone: FUTEX_PRIVATE would not find the borrowers.
    syscall(SYS_futex, &line.rests, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void StepTable::release(int slot) {
  set_waiting(slot, Duration(0));
  rest(slot);
}

uint32_t StepTable::rests(int slot) const {
  return layout_->lines[static_cast<size_t>(slot)].rests.load(std::memory_order_seq_cst);
}

void StepTable::wait_for_rest(int slot, uint32_t seen, Duration most) const {
  Slot& line = layout_->lines[static_cast<size_t>(slot)];
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec limit{seconds.count(), static_cast<long>((most - seconds).count())};
  line.sleepers.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &line.rests, FUTEX_WAIT, seen, &limit, nullptr, 0);
  line.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void StepTable::set_waiting(int slot, Duration waiting) {
  BATON_CHECK(slot >= 0 && slot < kMaxSlots, "a slot of the table");
  layout_->lines[static_cast<size_t>(slot)].waiting_ns.store(waiting.count(),
                                                             std::memory_order_relaxed);
}

Duration StepTable::longest_waiting(int own_slot) const {
  int64_t longest = 0;
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    if (slot != own_slot) {
      const Slot& line = layout_->lines[static_cast<size_t>(slot)];
      longest = std::max(longest, line.waiting_ns.load(std::memory_order_relaxed));
    }
  }
  return Duration(longest);
}

bool StepTable::running(int slot) const {
  return layout_->lines[static_cast<size_t>(slot)].running.load(std::memory_order_acquire) != 0;
}

bool StepTable::any_running() const {
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    if (running(slot)) {
      return true;
    }
  }
  return false;
}

bool StepTable::idle(int slot, Duration quiet, TimePoint now) const {
  if (running(slot)) {
    return false;
  }
  const int64_t ended =
      layout_->lines[static_cast<size_t>(slot)].ended_ns.load(std::memory_order_relaxed);
  const int64_t at = now.time_since_epoch().count();
  // Compared without a difference, which could overflow: the words may hold anything.
  return ended == 0 || (ended <= at && ended <= at - quiet.count());
}

}  // namespace baton::device
