// A config.json and a safetensors file must end in a description or a Status, and what describe()
// accepts must load. The input: u32 length of the config, the config, the safetensors file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/description.h"
#include "common/model/segments.h"
#include "common/model/weights.h"
#include "common/model_file/safetensors.h"
#include "common/model_file/safetensors_folder.h"

namespace {

using baton::Result;
using baton::Status;
using baton::model_file::ModelFile;

void check_message(const Status& status) {
  BATON_CHECK(status.message().find('\n') == std::string::npos, "a message is one line");
}

Result<ModelFile> read(std::span<const std::byte> bytes) {
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) {
    return baton::invalid_argument("too short");
  }
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes = bytes.subspan(sizeof(size));
  const auto config_bytes = bytes.first(std::min<size_t>(size, bytes.size()));
  const std::string_view text(reinterpret_cast<const char*>(config_bytes.data()),
                              config_bytes.size());
  auto config = baton::model_file::read_folder_config(text, "config.json");
  const auto tensors = baton::model_file::parse_safetensors(bytes.subspan(config_bytes.size()));
  if (!tensors.ok()) {
    check_message(tensors.status());
    return tensors.status();
  }
  BATON_RETURN_IF_ERROR(config.status());
  BATON_ASSIGN_OR_RETURN(auto contents,
                         baton::model_file::join_folder("fuzz", std::move(*config), *tensors));
  return ModelFile(std::move(contents));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Result<ModelFile> file = read(std::as_bytes(std::span(data, size)));
  if (!file.ok()) {
    check_message(file.status());
    return 0;
  }
  for (const auto& tensor : file->tensors()) {
    BATON_CHECK(tensor.data.size() == tensor.rows() * tensor.row_bytes(), "whole rows");
    BATON_CHECK(tensor.stored_row(tensor.rows() - 1) < tensor.rows(), "row outside the tensor");
  }
  auto description = baton::model::describe(*file);
  if (!description.ok()) {
    check_message(description.status());
    return 0;
  }
  // As the engine does; else most of the time goes into RoPE tables.
  description->max_context = std::min(description->max_context, 16);
  const auto plan = baton::model::SegmentPlan::create(*description, 1, 1);
  if (!plan.ok()) {
    return 0;
  }
  const auto weights = baton::model::Weights::load(std::move(*file), *description, *plan,
                                                   baton::model::WeightPool::kDecode);
  BATON_CHECK(weights.ok(), "what is described can be loaded");
  std::vector<float> row(static_cast<size_t>(description->hidden));
  (*weights)->embed(description->vocab - 1, row.data());
  return 0;
}
