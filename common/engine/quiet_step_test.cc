// What the compute threads do in a step besides computing, counted by interposition: malloc and
// pthread locks by functions of their name here, system calls by a seccomp filter on the threads,
// barriers by the linker's --wrap.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "common/engine/engine_test_support.h"

namespace {

// Counts are of threads that have said that they compute, while `counting`.
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::atomic<int> locks{0};
std::atomic<int> system_calls{0};
std::atomic<int> last_system_call{-1};
std::atomic<int> barriers{0};  // of rank 0
thread_local bool computes = false;

void count(std::atomic<int>& what) {
  if (computes && counting.load(std::memory_order_relaxed)) {
    what.fetch_add(1, std::memory_order_relaxed);
  }
}

int lock_with(const char* name, pthread_mutex_t* mutex) {
  count(locks);
  using Lock = int (*)(pthread_mutex_t*);
  return reinterpret_cast<Lock>(dlsym(RTLD_NEXT, name))(mutex);
}

void on_refused_call(int /*signal*/, siginfo_t* info, void* context) {
  count(system_calls);
  last_system_call.store(info->si_syscall, std::memory_order_relaxed);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
}

// From now on every system call of this thread but futex, and what ends it, is a SIGSYS.
void trap_system_calls() {
  struct sigaction action = {};
  action.sa_sigaction = on_refused_call;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSYS, &action, nullptr), 0);
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned allowed : {SYS_futex, SYS_rt_sigreturn, SYS_exit, SYS_exit_group}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  const sock_fprog program = {.len = static_cast<unsigned short>(filter.size()),
                              .filter = filter.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  count(allocations);
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count(allocations);
  return __libc_calloc(n, size);
}
void* realloc(void* old, size_t size) {
  count(allocations);
  return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  count(allocations);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) { return lock_with("pthread_mutex_lock", mutex); }
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  return lock_with("pthread_mutex_trylock", mutex);
}

void __real__ZN5baton6device10TeamThread12rank_barrierEv(baton::device::TeamThread*);
void __real__ZN5baton6device10TeamThread12team_barrierEv(baton::device::TeamThread*);
void __wrap__ZN5baton6device10TeamThread12rank_barrierEv(baton::device::TeamThread* thread) {
  barriers.fetch_add(thread->rank == 0 ? 1 : 0, std::memory_order_relaxed);
  __real__ZN5baton6device10TeamThread12rank_barrierEv(thread);
}
void __wrap__ZN5baton6device10TeamThread12team_barrierEv(baton::device::TeamThread* thread) {
  barriers.fetch_add(thread->rank == 0 ? 1 : 0, std::memory_order_relaxed);
  __real__ZN5baton6device10TeamThread12team_barrierEv(thread);
}

}  // extern "C"

namespace baton::engine {
namespace {

struct Case {
  std::string name;
  const char* model;
  int sequences;
  int new_tokens;  // of each
  Arithmetic arithmetic;
};

// Two ranks of one thread, so that the hook below runs on every compute thread.
class QuietStepTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kContext = 40;

  void SetUp() override {
    EngineSetup setup;
    setup.model = GetParam().model;
    setup.isa = device::available_isas().back();
    setup.ranks = 2;
    setup.segments = 2;
    setup.arithmetic = GetParam().arithmetic;
    EngineOptions options = options_of(setup);
    options.team.wait = device::WaitPolicy::kSpin;  // the other one gives up the CPU by system call
    engine_ = Engine::create(options).value();
    engine_->set_kv_written([this](int rank, int layer) {
      if (warm_ && !computes) {
        computes = true;
        trap_system_calls();
      }
      if (rank == 0 && counting.load(std::memory_order_relaxed)) {
        at_layer_[static_cast<size_t>(layer)] = barriers.load(std::memory_order_relaxed);
      }
    });
    at_layer_.resize(static_cast<size_t>(engine_->description().layers));
    sampling::SamplingParams params;
    params.temperature = 0.8f;
    params.top_k = 40;
    params.top_p = 0.9f;
    for (int i = 0; i < GetParam().sequences; ++i) {
      params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
      samplers_.emplace_back(params, std::span<const TokenId>(), std::span<const TokenId>(), 0,
                             engine_->description().vocab);
    }
    engine_->pool(0).fill(0);
    engine_->pool(1).fill(0);
  }

  std::unique_ptr<BatchPlan> plan() {
    auto batch = std::make_unique<BatchPlan>();
    const int vocab = engine_->description().vocab;
    for (size_t i = 0; i < samplers_.size(); ++i) {
      SequencePlan sequence;
      sequence.id = SequenceId{i + 1};
      sequence.tokens = random_tokens(i, GetParam().new_tokens, vocab);
      sequence.first_position = kContext;
      for (int block = 0; block * 32 < kContext + GetParam().new_tokens; ++block) {
        sequence.blocks.push_back(static_cast<BlockId>(4 * i) + static_cast<BlockId>(block));
      }
      sequence.window_blocks = sequence.blocks;
      sequence.logits = LogitsWanted::kLast;
      sequence.samples.push_back({&samplers_[i]});
      batch->sequences.push_back(std::move(sequence));
    }
    return batch;
  }

  void step_counted() {
    std::unique_ptr<BatchPlan> batch = plan();
    StepOutput output;
    std::atomic<bool> done{false};
    counting.store(true);
    engine_->submit(std::move(batch), [&](StepOutput o) {
      counting.store(false);
      output = std::move(o);
      done.store(true);
    });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done.load() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(done.load());
    ASSERT_EQ(output.sequences.size(), samplers_.size());
    ASSERT_TRUE(output.sequences[0].error.ok());
  }

  std::unique_ptr<Engine> engine_;
  std::vector<sampling::SequenceSampler> samplers_;
  bool warm_ = false;
  std::vector<int> at_layer_;  // barriers that rank 0 had passed before attention
};

INSTANTIATE_TEST_SUITE_P(
    Steps, QuietStepTest,
    ::testing::Values(
        Case{"OneRow", "tests/data/models/tiny_q4_1.gguf", 1, 1, Arithmetic::kCanonical},
        Case{"SixteenRows", "tests/data/models/tiny_q4_1.gguf", 16, 1, Arithmetic::kCanonical},
        Case{"SixteenRowsFast", "tests/data/models/tiny_q4_1.gguf", 16, 1, Arithmetic::kFast},
        Case{"Chunk", "tests/data/models/tiny_q4_1.gguf", 1, 70, Arithmetic::kCanonical},
        Case{"Windows", "tests/data/models/tiny_gemma3.gguf", 4, 1, Arithmetic::kCanonical}),
    [](const auto& test) { return test.param.name; });

TEST_P(QuietStepTest, OnlyComputesAndMeetsAtFewBarriers) {
  for (int i = 0; i < 3; ++i) {
    warm_ = i == 2;  // memory is there: in this step the filter is set
    ASSERT_TRUE(engine_->run(plan()).sequences[0].error.ok());
  }
  allocations = locks = system_calls = 0;
  step_counted();
  EXPECT_EQ(allocations.load(), 0);
  EXPECT_EQ(locks.load(), 0);
  EXPECT_EQ(system_calls.load(), 0) << "the last was number " << last_system_call.load();
  ASSERT_GE(at_layer_.size(), 2u);
  const int rows = GetParam().sequences * GetParam().new_tokens;
  for (size_t layer = 1; layer < at_layer_.size(); ++layer) {
    EXPECT_EQ(at_layer_[layer] - at_layer_[layer - 1], rows <= 16 ? 5 : 7) << "layer " << layer;
  }
}

// That the counts are no zeros of broken counters.
TEST(CountersTest, Count) {
  std::thread([] {
    computes = true;
    trap_system_calls();
    allocations = locks = system_calls = 0;
    counting = true;
    ::operator delete(::operator new(100));
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    syscall(SYS_getppid);
    counting = false;
  }).join();
  EXPECT_EQ(allocations.load(), 1);
  EXPECT_EQ(locks.load(), 1);
  EXPECT_EQ(system_calls.load(), 1);
}

}  // namespace
}  // namespace baton::engine
