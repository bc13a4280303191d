#include "deploy/baton/serve_bench/text_file.h"

#include <lzma.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string_view>

namespace baton::serve_bench {
namespace {

constexpr std::string_view kXzMagic(
    "\xFD"
    "7zXZ\0",
    6);
constexpr uint64_t kMaxDecoderMemory = uint64_t{256} << 20;
constexpr size_t kPieceBytes = 64 * 1024;

// Takes pieces of the file, gives text.
class Unpacker {
 public:
  Unpacker()
      : ready_(lzma_stream_decoder(&stream_, kMaxDecoderMemory, LZMA_CONCATENATED) == LZMA_OK) {}
  ~Unpacker() { lzma_end(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // False when it is damaged. `last`: nothing follows.
  bool feed(std::string_view packed, bool last, size_t limit, std::string& text) {
    stream_.next_in = reinterpret_cast<const uint8_t*>(packed.data());
    stream_.avail_in = packed.size();
    lzma_ret result = ready_ ? LZMA_OK : LZMA_PROG_ERROR;
    // Decoding goes on while it has something to take or had no room for what it gave.
    do {
      if (text.size() > limit) {
        return true;
      }
      stream_.next_out = reinterpret_cast<uint8_t*>(piece_.data());
      stream_.avail_out = piece_.size();
      if (result == LZMA_OK) {
        result = lzma_code(&stream_, last ? LZMA_FINISH : LZMA_RUN);
      }
      text.append(piece_.data(), piece_.size() - stream_.avail_out);
    } while (result == LZMA_OK && (stream_.avail_in > 0 || stream_.avail_out == 0));
    return result == (last ? LZMA_STREAM_END : LZMA_OK) || (!last && result == LZMA_BUF_ERROR);
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_;
  std::array<char, kPieceBytes> piece_;
};

}  // namespace

Result<std::string> read_text_file(const std::string& path, size_t limit) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(kPieceBytes, '\0');
  const auto next = [&] {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    return std::string_view(piece.data(), static_cast<size_t>(file.gcount()));
  };
  if (!file) {
    return not_found("cannot read " + path);
  }
  std::string text;
  Unpacker unpacker;
  std::string_view bytes = next();
  const bool packed = bytes.starts_with(kXzMagic);
  while (!bytes.empty() && text.size() <= limit) {
    if (!packed) {
      text += bytes;
    } else if (!unpacker.feed(bytes, false, limit, text)) {
      return invalid_argument(path + " is damaged: it begins like xz and does not go on so");
    }
    bytes = next();
  }
  if (file.bad() || (!file.eof() && text.size() <= limit)) {
    return not_found("cannot read " + path);
  }
  if (packed && text.size() <= limit && !unpacker.feed({}, true, limit, text)) {
    return invalid_argument(path + " is damaged: its xz data ends too early");
  }
  if (text.size() > limit) {
    return resource_exhausted(path + " holds more than " + std::to_string(limit >> 20) + " MiB");
  }
  return text;
}

}  // namespace baton::serve_bench
