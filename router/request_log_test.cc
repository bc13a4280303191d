#include "router/request_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace baton::router {
namespace {

// Real time for waits, and what a test adds to it.
class ShiftedClock final : public Clock {
 public:
  TimePoint now() const override { return SteadyClock().now() + Duration(shift_ns_.load()); }
  void advance(Duration by) { shift_ns_ += by.count(); }

 private:
  std::atomic<int64_t> shift_ns_{0};
};

class RequestLogTest : public testing::Test {
 protected:
  RequestLogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "baton-log-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "requests.jsonl";
  }
  ~RequestLogTest() override {
    log_.reset();
    std::filesystem::remove_all(folder_);
  }
  void open() {
    Result<std::unique_ptr<RequestLog>> log = RequestLog::open(path_.string(), clock_, registry_);
    ASSERT_TRUE(log.ok()) << log.status().to_string();
    log_ = std::move(*log);
  }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  bool eventually_holds(const std::filesystem::path& path, const std::string& wanted) {
    const TimePoint deadline = SteadyClock().now() + 10s;
    while (content(path) != wanted) {
      if (SteadyClock().now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }
  double dropped() { return registry_.counter(metrics::MetricId::kRequestLogDropped).value(); }

  std::filesystem::path folder_, path_;
  ShiftedClock clock_;
  metrics::Registry registry_{{.program = metrics::kByRouter, .model_name = "m", .worker = ""}};
  std::unique_ptr<RequestLog> log_;
};

TEST_F(RequestLogTest, AppendsALineForEach) {
  std::ofstream(path_) << "before\n";
  open();
  for (int i = 0; i < 3; ++i) {
    log_->write("{\"n\":" + std::to_string(i) + "}");
  }
  log_.reset();  // writes what is queued
  EXPECT_EQ(content(path_), "before\n{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n");
  EXPECT_EQ(dropped(), 0);
}

TEST_F(RequestLogTest, RefusesAPathThatCannotBeWritten) {
  const std::string path = (folder_ / "none" / "log").string();
  const Result<std::unique_ptr<RequestLog>> log = RequestLog::open(path, clock_, registry_);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().message(),
            "router.request_log: cannot write '" + path + "': No such file or directory");
}

TEST_F(RequestLogTest, OpensAnewWhatWasRenamed) {
  open();
  log_->write("a");
  ASSERT_TRUE(eventually_holds(path_, "a\n"));
  std::filesystem::rename(path_, folder_ / "old");
  clock_.advance(2s);
  log_->write("b");
  EXPECT_TRUE(eventually_holds(path_, "b\n"));
  EXPECT_EQ(content(folder_ / "old"), "a\n");
}

TEST_F(RequestLogTest, GoesOnAfterTheFileWasCutInPlace) {
  open();
  log_->write("a");
  ASSERT_TRUE(eventually_holds(path_, "a\n"));
  std::filesystem::resize_file(path_, 0);  // logrotate's copytruncate
  log_->write("b");
  EXPECT_TRUE(eventually_holds(path_, "b\n"));
}

TEST_F(RequestLogTest, CountsWhatAFullDiskDoesNotTake) {
  path_ = "/dev/full";
  open();
  log_->write("a");
  log_->write("b");
  log_.reset();
  EXPECT_EQ(dropped(), 2);
}

TEST_F(RequestLogTest, DropsWhatItCannotQueue) {
  open();
  const std::string large(4u << 20, 'x');
  for (int i = 0; i < 30; ++i) {
    log_->write(large);  // more than it may hold
  }
  log_.reset();
  const auto written = static_cast<double>(std::filesystem::file_size(path_));
  EXPECT_EQ(written, (30 - dropped()) * static_cast<double>(large.size() + 1));
}

}  // namespace
}  // namespace baton::router
