#include "deploy/baton/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace baton::cli {
namespace {

// Between fork and exec: only calls that are safe after a fork of a process with threads.
[[noreturn]] void run_child(pid_t parent, int error_fd, int output_fd, char* const* argv) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);  // the parent died before the line above
  }
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd >= 0) {
    dup2(null_fd, STDIN_FILENO);
  }
  if (output_fd >= 0) {
    dup2(output_fd, STDERR_FILENO);
  }
  dup2(STDERR_FILENO, STDOUT_FILENO);
  execv(argv[0], argv);
  const int error = errno;
  // The parent reads the reason; if it cannot, the exit status still tells.
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

// The errno of a failed exec, or 0.
int read_exec_error(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

Status cannot_run(const std::string& path, int error) {
  return unavailable("cannot run " + path + ": " + std::strerror(error));
}

}  // namespace

std::string ChildExit::to_text() const {
  if (!signalled) {
    return "exit status " + std::to_string(code);
  }
  const char* name = sigdescr_np(code);
  return "signal " + std::to_string(code) + (name ? " (" + std::string(name) + ")" : "");
}

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& argv, int output_fd) {
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    return cannot_run(argv[0], errno);
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    run_child(parent, error_pipe[1], output_fd, words.data());
  }
  const int fork_error = errno;
  close(error_pipe[1]);
  if (pid < 0) {
    close(error_pipe[0]);
    return cannot_run(argv[0], fork_error);
  }
  const int exec_error = read_exec_error(error_pipe[0]);
  close(error_pipe[0]);
  ChildProcess child(pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (exec_error != 0) {
    return cannot_run(argv[0], exec_error);
  }
  if (child.pidfd_ < 0) {
    return internal_error(std::string("pidfd_open: ") + std::strerror(errno));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pidfd_(std::exchange(other.pidfd_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    pidfd_ = std::exchange(other.pidfd_, -1);
  }
  return *this;
}

ChildProcess::~ChildProcess() { end(); }

void ChildProcess::signal(int number) const {
  if (pid_ > 0) {
    kill(pid_, number);
  }
}

std::optional<ChildExit> ChildProcess::try_reap() {
  int status = 0;
  if (pid_ == 0 || waitpid(pid_, &status, WNOHANG) != pid_) {
    return std::nullopt;
  }
  pid_ = 0;
  close(std::exchange(pidfd_, -1));
  if (WIFSIGNALED(status)) {
    return ChildExit{.signalled = true, .code = WTERMSIG(status)};
  }
  return ChildExit{.signalled = false, .code = WEXITSTATUS(status)};
}

void ChildProcess::end() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
  }
  if (pidfd_ >= 0) {
    close(std::exchange(pidfd_, -1));
  }
}

}  // namespace baton::cli
