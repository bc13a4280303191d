#include "deploy/baton/cluster_plan.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "deploy/baton/ports.h"
#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

// Listens on a port of 127.0.0.1 that the kernel chooses.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

bool has_argument(const Program& program, const std::string& value) {
  return std::ranges::find(program.argv, value) != program.argv.end();
}

Result<ClusterPlan> plan(const UpOptions& options) {
  SeededRandom random(1);
  return plan_cluster(options, "/bin-folder", random);
}

TEST(ClusterPlanTest, StartsEveryProgramOfTheFileWithTheSameOverrides) {
  const TempFolder folder;
  UpOptions options;
  options.config_path = folder.write("c.yaml", "prefill: [{name: p0}, {name: p1}]\n");
  options.port = 0;
  options.model = "/models/My-Model.gguf";
  options.max_model_len = 512;
  options.overrides = {"router.local_prefill=never"};
  options.log_level = "warn";
  const Result<ClusterPlan> made = plan(options);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made->config.model.name, "My-Model");
  EXPECT_EQ(made->config.model.max_context, 512);
  std::vector<std::string> names;
  for (const Program& program : made->programs) {
    names.push_back(program.argv[0] + " " + program.name);
    EXPECT_TRUE(has_argument(program, options.config_path));
    EXPECT_TRUE(has_argument(program, "model.path=/models/My-Model.gguf"));
    EXPECT_TRUE(has_argument(program, "router.local_prefill=never"));
    EXPECT_TRUE(has_argument(program, "router.control=" + made->config.router.control));
    EXPECT_TRUE(has_argument(program, "workers.routers=" + made->config.router.control));
    EXPECT_TRUE(has_argument(program, "warn"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "/bin-folder/baton-router router", "/bin-folder/baton-prefill p0",
                       "/bin-folder/baton-prefill p1", "/bin-folder/baton-decode d0"}));
  EXPECT_FALSE(has_argument(made->programs[0], "--name"));
  EXPECT_TRUE(has_argument(made->programs[2], "p1"));
}

TEST(ClusterPlanTest, SettlesPortsThatNobodyHas) {
  UpOptions options;
  options.port = 0;
  const Result<ClusterPlan> made = plan(options);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_TRUE(made->chose_ports);
  EXPECT_EQ(made->url, "http://" + made->config.router.listen);
  EXPECT_NE(made->config.router.control, "tcp://127.0.0.1:7800");
  EXPECT_EQ(made->config.workers.routers, std::vector<std::string>{made->config.router.control});
  EXPECT_FALSE(ports_were_taken(*made));
}

TEST(ClusterPlanTest, RefusesAPortInUseAndSaysWhatToDo) {
  const Listener other;
  UpOptions options;
  options.port = other.port();
  EXPECT_EQ(plan(options).status().message(),
            "port " + std::to_string(other.port()) +
                " on 127.0.0.1 is in use; choose another with --port N (0 takes any)");
}

TEST(ClusterPlanTest, MovesAControlPortThatIsTaken) {
  const Listener other;
  SeededRandom random(2);
  UpOptions options;
  options.port = choose_port("127.0.0.1", random).value();
  const std::string taken = "tcp://127.0.0.1:" + std::to_string(other.port());
  options.overrides = {"router.control=" + taken,
                       "workers.routers=" + taken + ",tcp://127.0.0.1:1"};
  const Result<ClusterPlan> made = plan(options);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_NE(made->config.router.control, taken);
  EXPECT_EQ(made->config.workers.routers,
            (std::vector<std::string>{made->config.router.control, "tcp://127.0.0.1:1"}));
}

TEST(ClusterPlanTest, NamesWhatIsWrongInTheFile) {
  UpOptions options;
  options.config_path = "/nonexistent.yaml";
  EXPECT_NE(plan(options).status().message().find("/nonexistent.yaml"), std::string::npos);
  options = {};
  options.port = 0;
  options.host = "0.0.0.0";
  EXPECT_NE(plan(options).status().message().find("api_keys_file"), std::string::npos);
  options.host = "192.0.2.1";
  options.overrides = {"router.allow_keyless=true"};
  EXPECT_EQ(plan(options).status().message(), "192.0.2.1 is no address of this machine");
}

TEST(ClusterPlanTest, KnowsThatTheRouterSpeaksTls) {
  UpOptions options;
  options.port = 0;
  options.overrides = {"router.tls_certificate_file=a", "router.tls_key_file=b"};
  const Result<ClusterPlan> made = plan(options);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made->url, "https://" + made->config.router.listen);
}

TEST(ClusterPlanTest, RefusesAFileOfSeveralMachines) {
  UpOptions options;
  options.port = 0;
  options.overrides = {"workers.share_machine=false"};
  const Result<ClusterPlan> refused = plan(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.status().message().starts_with("workers.share_machine: false says"));
}

TEST(PortsTest, TellsAPortInUseFromAFreeOne) {
  const Listener other;
  EXPECT_EQ(check_port("127.0.0.1", other.port()).code(), StatusCode::kUnavailable);
  SeededRandom random(3);
  const Result<uint16_t> port = choose_port("127.0.0.1", random);
  ASSERT_TRUE(port.ok());
  EXPECT_TRUE(check_port("127.0.0.1", *port).ok());
  EXPECT_EQ(check_port("no.such.host.invalid", 1).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::cli
