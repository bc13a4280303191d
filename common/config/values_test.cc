#include "common/config/values.h"

#include <gmock/gmock.h>

#include <array>

namespace baton::config {
namespace {

TEST(ValuesTest, ReadsDurations) {
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("1.5h"), 90min);
  EXPECT_EQ(parse_duration("7us"), 7us);
  EXPECT_EQ(parse_duration("2m"), 2min);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const char* bad : {"", "30", "s", "-1s", "1 s", "1.2.3s", "1e3s", "1d", "99999999999h"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(ValuesTest, ReadsSizes) {
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("512MiB"), 512ull << 20);
  EXPECT_EQ(parse_size("2TiB"), 2ull << 40);
  for (const char* bad : {"", "MiB", "1MB", "-1", "1.5GiB", "99999999999TiB", "1 MiB"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

TEST(ValuesTest, ReadsKvCacheSizes) {
  EXPECT_EQ(parse_kv_cache("auto"), KvCacheSize{});
  EXPECT_EQ(parse_kv_cache("64blocks"), (KvCacheSize{KvCacheSize::Unit::kBlocks, 64}));
  EXPECT_EQ(parse_kv_cache("1GiB"), (KvCacheSize{KvCacheSize::Unit::kBytes, 1ull << 30}));
  for (const char* bad : {"", "0", "0blocks", "blocks", "64 blocks", "many"}) {
    EXPECT_FALSE(parse_kv_cache(bad)) << bad;
  }
}

TEST(ValuesTest, WritesWhatItReads) {
  for (const Duration d : {Duration(0s), Duration(30s), Duration(90s), Duration(24h),
                           Duration(1500ms), Duration(50us), Duration(1500ns)}) {
    EXPECT_EQ(parse_duration(format_duration(d)), d) << format_duration(d);
  }
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(600s), "10m");
  for (const uint64_t bytes : {0ull, 1ull, 1023ull, 1024ull, 3ull << 20, 1ull << 63}) {
    EXPECT_EQ(parse_size(format_size(bytes)), bytes);
  }
  EXPECT_EQ(format_size(32ull << 20), "32MiB");
  for (const char* text : {"auto", "64blocks", "512MiB"}) {
    EXPECT_EQ(format_kv_cache(*parse_kv_cache(text)), text);
  }
  EXPECT_EQ(format_number(0.2), "0.2");
}

TEST(ValuesTest, MeasuresDistances) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
  const std::array<std::string_view, 3> words = {"listen", "drain", "control"};
  EXPECT_EQ(nearest("drian", words), "drain");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(ValuesTest, KnowsAddresses) {
  EXPECT_EQ(host_of_address("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(host_of_address("[::1]:80"), "::1");
  for (const char* bad : {"", ":80", "host", "host:", "host:70000", "::1:80", "a/b:1"}) {
    EXPECT_FALSE(host_of_address(bad)) << bad;
  }
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("localhost"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("host"));
}

}  // namespace
}  // namespace baton::config
