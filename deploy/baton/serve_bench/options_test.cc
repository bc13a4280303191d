#include "deploy/baton/serve_bench/options.h"

#include <gmock/gmock.h>

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;

TEST(OptionsTest, WantsExactlyOneKindOfArrivals) {
  ServeBenchOptions options;
  EXPECT_THAT(check_options(options).message(), HasSubstr("give one of --rate R"));
  options.rate = 1;
  EXPECT_TRUE(check_options(options).ok());
  options.trace = "t";
  EXPECT_THAT(check_options(options).message(), HasSubstr("not several"));
  options.rate = 0;
  options.trace_scale = 2;
  EXPECT_TRUE(check_options(options).ok());
  options.search = true;
  EXPECT_TRUE(check_options(options).ok());
}

TEST(OptionsTest, RefusesWhatDoesNotGoTogether) {
  ServeBenchOptions options;
  options.search = true;
  EXPECT_TRUE(check_options(options).ok()) << "a search begins by itself";
  options.concurrency = 4;
  EXPECT_THAT(check_options(options).message(), HasSubstr("does not go with --concurrency"));
  options.search = false;
  EXPECT_TRUE(check_options(options).ok());
  options.max_connections = 3;
  EXPECT_THAT(check_options(options).message(), HasSubstr("--max-connections is 3"));
  options.max_connections = 4;
  options.trace_scale = 2;
  EXPECT_THAT(check_options(options).message(), HasSubstr("--trace-scale"));
  options.trace_scale = 1;
  options.url = "ftp://host";
  EXPECT_THAT(check_options(options).message(), HasSubstr("does not begin with http://"));
}

}  // namespace
}  // namespace baton::serve_bench
