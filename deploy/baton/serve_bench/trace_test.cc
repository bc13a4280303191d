#include "deploy/baton/serve_bench/trace.h"

#include <gmock/gmock.h>
#include <lzma.h>

#include "deploy/baton/serve_bench/text_file.h"
#include "deploy/baton/temp_folder.h"

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kAzure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-30 23:59:59.9799600,4808,10\r\n"
    "2023-12-01 00:00:00.0319600,3180,0\r\n"
    "2023-12-01 00:00:01,110,27\n";
constexpr std::string_view kMooncake =
    "{\"timestamp\": 1000, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 7]}\n"
    "{\"timestamp\": 4000, \"input_length\": 9, \"output_length\": 2}\n"
    "{\"timestamp\": 3000, \"input_length\": 8, \"output_length\": 3, \"hash_ids\": []}\n";

std::string packed(std::string_view text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string error_of(std::string_view text) { return parse_trace(text, "t").status().message(); }

TEST(TraceTest, ReadsAzure) {
  const auto trace = parse_trace(kAzure, "t");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  ASSERT_EQ(trace->size(), 3u);
  EXPECT_EQ((*trace)[0].offset, 0s);
  EXPECT_EQ((*trace)[0].input_tokens, 4808);
  EXPECT_EQ((*trace)[0].output_tokens, 10);
  EXPECT_EQ((*trace)[1].offset, 52ms) << "over the end of a month";
  EXPECT_EQ((*trace)[1].output_tokens, 1) << "an empty answer cannot be asked for";
  EXPECT_EQ((*trace)[2].offset, Duration(1'020'040'000));
}

TEST(TraceTest, ReadsMooncakeInOrderOfTime) {
  const auto trace = parse_trace(kMooncake, "t");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  ASSERT_EQ(trace->size(), 3u);
  EXPECT_EQ((*trace)[0].offset, 0s);
  EXPECT_EQ((*trace)[0].input_tokens, 6758);
  EXPECT_EQ((*trace)[0].output_tokens, 500);
  EXPECT_EQ((*trace)[0].blocks, (std::vector<uint64_t>{0, 7}));
  EXPECT_EQ((*trace)[1].offset, 2s);
  EXPECT_EQ((*trace)[1].input_tokens, 8);
  EXPECT_EQ((*trace)[2].offset, 3s);
}

TEST(TraceTest, NamesTheLineThatIsWrongAndWhatWouldBeRight) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string good = "2023-11-16 18:17:03.97,4808,10\n";
  EXPECT_EQ(error_of(header + good + "2023-11-16 18:17:03.97,4808\n"),
            "t:3: not a line of this trace; right would be 2023-11-16 18:17:03.9799600,4808,10");
  for (const char* line : {"2023-11-16 18:17:03,1,x", "2023-13-16 18:17:03,1,1", "yesterday,1,1",
                           "2023-11-16 18:17:03,-1,1", "2023-11-16 18:17:03,1,99999999999",
                           "2023-11-16 28:17:03,1,1", "2023-11-16 18:17:03,1,1,1"}) {
    EXPECT_THAT(error_of(header + line + "\n"), HasSubstr("t:2: not a line")) << line;
  }
  for (const char* line :
       {"{\"timestamp\": 0}", "{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1}",
        "{\"timestamp\": 0, \"input_length\": \"1\", \"output_length\": 1}",
        "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1e99}",
        "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [\"a\"]}",
        "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 5}", "{"}) {
    EXPECT_THAT(error_of(std::string(line) + "\n"), HasSubstr("t:1: not a line")) << line;
  }
  EXPECT_THAT(error_of("a,b\n"), HasSubstr("t:1: not a trace that is known"));
  EXPECT_EQ(error_of(header), "t holds no request");
  EXPECT_EQ(error_of(""), "t holds no request");
}

TEST(TraceTest, ReadsFilesPlainAndPacked) {
  const cli::TempFolder folder;
  const auto plain = read_trace(folder.write("a.csv", std::string(kAzure)));
  const auto xz = read_trace(folder.write("a.csv.xz", packed(kAzure)));
  ASSERT_TRUE(plain.ok() && xz.ok()) << xz.status().to_string();
  EXPECT_EQ(plain->size(), 3u);
  EXPECT_EQ(xz->size(), 3u);
  EXPECT_EQ(read_trace(folder.path("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_trace(folder.path("")).status().code(), StatusCode::kNotFound);
}

TEST(TextFileTest, UnpacksWhatIsLargerThanItsPieces) {
  const cli::TempFolder folder;
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 300'000; ++i) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>('a' + (state >> 28));
  }
  EXPECT_EQ(read_text_file(folder.write("x", packed(text))).value(), text);
  EXPECT_EQ(read_text_file(folder.write("twice", packed("one") + packed("two"))).value(), "onetwo");
}

TEST(TextFileTest, SaysWhatIsWrongWithAFile) {
  const cli::TempFolder folder;
  const std::string good = packed(std::string(5000, 'a') + "bcd");
  std::string flipped = good;
  flipped[good.size() / 2] ^= 0x55;
  EXPECT_EQ(read_text_file(folder.write("f", flipped)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(
      read_text_file(folder.write("c", good.substr(0, good.size() - 20))).status().message(),
      HasSubstr("ends too early"));
  EXPECT_EQ(read_text_file(folder.write("l", good), 1000).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(read_text_file(folder.write("p", std::string(5000, 'a')), 1000).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(read_text_file(folder.path("missing")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton::serve_bench
