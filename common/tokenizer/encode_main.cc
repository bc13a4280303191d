// tokenizer_encode MODEL [--special]: what the tokenizer of a GGUF file or model folder makes of
// texts, for comparisons with other implementations (tests/data/tokenizer/compare.py).
//
// stdin: texts, each as its size (u32, little endian) and its bytes. stdout: for each the number of
// ids (u32), the ids (i32), the size of their decoded text (u32) and that text. --special: control
// tokens in texts are read and shown.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/load_tokenizer.h"

namespace baton::tokenizer {
namespace {

constexpr uint32_t kMaxTextBytes = uint32_t{64} << 20;

bool read_text(std::string& text) {
  uint32_t size = 0;
  if (std::fread(&size, sizeof(size), 1, stdin) != 1 || size > kMaxTextBytes) {
    return false;
  }
  text.resize(size);
  return std::fread(text.data(), 1, size, stdin) == size;
}

template <typename T>
bool write_list(const T& values) {
  const auto count = static_cast<uint32_t>(values.size());
  return std::fwrite(&count, sizeof(count), 1, stdout) == 1 &&
         std::fwrite(values.data(), sizeof(values[0]), count, stdout) == count;
}

int run(const char* path, bool special) {
  const Result<Tokenizer> tokenizer = load_tokenizer(path);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "tokenizer_encode: %s\n", tokenizer.status().message().c_str());
    return 1;
  }
  for (std::string text; read_text(text);) {
    const std::vector<TokenId> ids =
        tokenizer->encode(text, {.add_bos = false, .parse_special = special});
    if (!write_list(ids) || !write_list(tokenizer->decode(ids, {.skip_special = !special})) ||
        std::fflush(stdout) != 0) {
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace baton::tokenizer

int main(int argc, char** argv) {
  const bool special = argc == 3 && std::string_view(argv[2]) == "--special";
  if (argc != 2 && !special) {
    std::fprintf(stderr, "usage: tokenizer_encode MODEL [--special] < TEXTS > IDS\n");
    return 2;
  }
  return baton::tokenizer::run(argv[1], special);
}
