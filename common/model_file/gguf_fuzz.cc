// Any bytes must end in a file or a Status; what a file hands out must lie inside it.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/check.h"
#include "common/model_file/model_file.h"
#include "common/model_file/model_hash.h"

namespace {

using baton::model_file::ModelFile;

bool inside(std::span<const std::byte> whole, std::span<const std::byte> part) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void visit(const ModelFile& file, std::span<const std::byte> bytes) {
  for (const auto& entry : file.metadata()) {
    BATON_CHECK(inside(bytes, entry.value), "metadata outside the file");
    BATON_CHECK(file.find(entry.key) == &entry, "a key is found");
    (void)file.get_u32(entry.key);
    (void)file.get_f32(entry.key);
    (void)file.get_bool(entry.key);
    (void)file.get_string(entry.key);
    (void)file.get_strings(entry.key);
    (void)file.get_i32s(entry.key);
    (void)file.get_f32s(entry.key);
  }
  for (const auto& tensor : file.tensors()) {
    BATON_CHECK(inside(bytes, tensor.data), "tensor outside the file");
    BATON_CHECK(tensor.data.size() == tensor.rows() * tensor.row_bytes(), "whole rows");
    BATON_CHECK(inside(bytes, tensor.row(tensor.rows() - 1)), "row outside the file");
    BATON_CHECK(file.find_tensor(tensor.name) == &tensor, "a tensor is found");
  }
  (void)baton::model_file::model_hash(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = ModelFile::parse(bytes, "fuzz");
  if (file.ok()) {
    visit(*file, bytes);
  } else {
    const baton::Status status = file.status();
    BATON_CHECK(status.message().find('\n') == std::string::npos, "a message is one line");
  }
  return 0;
}
