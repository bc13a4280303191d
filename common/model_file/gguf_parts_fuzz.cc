// Up to four files as parts of a split model: they must end in a model or a Status, and every
// tensor of the model must lie inside one of them. The input: a u32 length before every part but
// the last.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model_file/gguf_parts.h"
#include "common/model_file/model_hash.h"

namespace {

using baton::model_file::GgufPart;
using baton::model_file::join_gguf_parts;
using baton::model_file::model_hash;
using baton::model_file::ModelFile;
using baton::model_file::ModelFileContents;
using baton::model_file::parse_gguf;
using baton::model_file::ParsedGguf;
using baton::model_file::TensorInfo;

constexpr size_t kMaxParts = 4;

std::vector<std::span<const std::byte>> parts_of(std::span<const std::byte> bytes) {
  std::vector<std::span<const std::byte>> parts;
  while (parts.size() + 1 < kMaxParts && bytes.size() >= sizeof(uint32_t)) {
    uint32_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes = bytes.subspan(sizeof(size));
    const size_t taken = std::min<size_t>(size, bytes.size());
    parts.push_back(bytes.first(taken));
    bytes = bytes.subspan(taken);
  }
  if (!bytes.empty() || parts.empty()) {
    parts.push_back(bytes);
  }
  return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<GgufPart> parts;
  for (const auto part : parts_of(bytes)) {
    baton::Result<ParsedGguf> parsed = parse_gguf(part, {});
    if (!parsed.ok()) {
      return 0;
    }
    parts.push_back({"part", std::move(*parsed)});
  }
  baton::Result<ModelFileContents> contents = join_gguf_parts(std::move(parts));
  if (!contents.ok()) {
    const baton::Status status = contents.status();
    BATON_CHECK(status.message().find('\n') == std::string::npos, "a message is one line");
    return 0;
  }
  const ModelFile file(std::move(*contents));
  for (const TensorInfo& tensor : file.tensors()) {
    BATON_CHECK(tensor.data.data() >= bytes.data() &&
                    tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size(),
                "tensor outside the files");
    BATON_CHECK(file.find_tensor(tensor.name) == &tensor, "a tensor is found");
  }
  (void)model_hash(file);
  return 0;
}
