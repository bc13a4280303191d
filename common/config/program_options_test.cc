#include "common/config/program_options.h"

#include <gmock/gmock.h>

#include <sstream>
#include <vector>

namespace baton::config {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  Startup startup;
  std::string out;
  std::string err;
};

Outcome start(std::vector<const char*> arguments, Role role = Role::kDecode) {
  arguments.insert(arguments.begin(), "baton-test");
  std::ostringstream out;
  std::ostringstream err;
  Outcome result;
  result.startup = start_program({"baton-test", "Tests command lines.", role, "scalar avx2"},
                                 static_cast<int>(arguments.size()), arguments.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

TEST(ProgramOptionsTest, StartsWithTheDefaults) {
  const Outcome r = start({});
  EXPECT_FALSE(r.startup.exit_status.has_value());
  EXPECT_EQ(r.startup.self.name, "d0");
  EXPECT_EQ(r.startup.log.program, "baton-test");
  EXPECT_EQ(r.startup.log.worker, "d0");
  EXPECT_EQ(r.startup.config.decode.size(), 1u);
  EXPECT_EQ(r.out + r.err, "");
}

TEST(ProgramOptionsTest, PrintsHelpAndVersion) {
  const Outcome help = start({"--help"});
  EXPECT_EQ(help.startup.exit_status, kExitStopped);
  for (const char* flag : {"--help", "--version", "--config", "--name", "--set", "--check-config",
                           "--log-level", "--log-format", "Tests command lines."}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
  const Outcome version = start({"--version"});
  EXPECT_EQ(version.startup.exit_status, kExitStopped);
  const VersionInfo info = version_info();
  EXPECT_EQ(version.out, "baton-test " + info.version + " (commit " + info.commit + ", " +
                             info.build_type + ", instruction sets: scalar avx2)\n");
  EXPECT_FALSE(info.version.empty() || info.commit.empty() || info.build_type.empty());
}

TEST(ProgramOptionsTest, BadUsageIsStatusTwo) {
  const Outcome unknown = start({"--nonsense"});
  EXPECT_EQ(unknown.startup.exit_status, kExitUsage);
  EXPECT_THAT(unknown.err, StartsWith("baton-test: "));
  EXPECT_THAT(unknown.err, HasSubstr("--nonsense"));
  EXPECT_EQ(start({"--set"}).startup.exit_status, kExitUsage);
  EXPECT_EQ(start({"extra"}).startup.exit_status, kExitUsage);
  EXPECT_EQ(start({"--name", "x"}, Role::kRouter).startup.exit_status, kExitUsage);
}

TEST(ProgramOptionsTest, AWrongConfigurationIsStatusOneWithOneLine) {
  const Outcome r = start({"--set", "router.dran=1s"});
  EXPECT_EQ(r.startup.exit_status, kExitCannotStart);
  EXPECT_EQ(r.err, "baton-test: --set: unknown key router.dran; the nearest is router.drain\n");
  EXPECT_EQ(start({"--name", "d7"}).err,
            "baton-test: the file has no decode worker \"d7\"; there are: d0\n");
  EXPECT_EQ(start({"--log-level", "loud"}).startup.exit_status, kExitCannotStart);
  EXPECT_EQ(start({"--config", "/no/such"}).err,
            "baton-test: cannot read /no/such: No such file or directory (tried /no/such)\n");
}

TEST(ProgramOptionsTest, OverridesMayBeRepeated) {
  const Outcome r = start({"--set", "worker.kv_cache=64blocks", "--set", "isa=avx2", "--log-level",
                           "debug", "--log-format", "json"});
  ASSERT_FALSE(r.startup.exit_status.has_value()) << r.err;
  EXPECT_EQ(r.startup.config.decode[0].kv_cache.count, 64u);
  EXPECT_EQ(r.startup.config.isa, Isa::kAvx2);
  EXPECT_EQ(r.startup.log.level, LogLevel::kDebug);
  EXPECT_EQ(r.startup.log.format, LogFormat::kJson);
}

TEST(ProgramOptionsTest, AnEntryMayStandForManyProcesses) {
  const Outcome only = start({"--set", "worker.name=pod-a", "--set", "worker.kv_cache=64blocks"});
  ASSERT_FALSE(only.startup.exit_status.has_value()) << only.err;
  EXPECT_EQ(only.startup.self.name, "pod-a");
  EXPECT_EQ(only.startup.log.worker, "pod-a");
  EXPECT_EQ(only.startup.config.decode[0].name, "pod-a");
  EXPECT_EQ(only.startup.config.decode[0].kv_cache.count, 64u);
  const Outcome named =
      start({"--name", "d0", "--set", "worker.name=pod-b", "--set", "worker.block_tokens=64"});
  ASSERT_FALSE(named.startup.exit_status.has_value()) << named.err;
  EXPECT_EQ(named.startup.self.name, "pod-b");
  EXPECT_EQ(named.startup.config.decode[0].block_tokens, 64);
  EXPECT_EQ(start({"--set", "worker.name=Pod"}).err,
            "baton-test: --set: worker.name: \"Pod\" is not a name; use up to 32 of a-z, 0-9 and "
            "-\n");
  EXPECT_EQ(start({"--set", "worker.name=p0"}).startup.exit_status, kExitCannotStart);
}

TEST(ProgramOptionsTest, CheckPrintsTheWholeConfiguration) {
  const Outcome r = start({"--check-config", "--set", "router.drain=7s", "--log-level", "warn"});
  EXPECT_EQ(r.startup.exit_status, kExitStopped);
  EXPECT_THAT(r.out, HasSubstr("\n  drain: 7s\n"));
  EXPECT_THAT(r.out, HasSubstr("\n  level: warn\n"));
  EXPECT_THAT(r.out, HasSubstr("\ndecode:\n  - name: d0\n"));
  const Result<Config> again = parse_config(r.out, "printed", {});
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(to_yaml(*again), r.out);
}

TEST(ProgramOptionsTest, TheRouterNeedsNoName) {
  const Outcome r = start({"--set", "model.name=x"}, Role::kRouter);
  ASSERT_FALSE(r.startup.exit_status.has_value()) << r.err;
  EXPECT_EQ(r.startup.self.name, "");
}

}  // namespace
}  // namespace baton::config
