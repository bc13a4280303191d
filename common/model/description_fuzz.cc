// Any bytes that pass for a GGUF file must end in a description or a Status, and what describe()
// accepts must load: the sizes that it has checked are those that packing relies on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/description.h"
#include "common/model/segments.h"
#include "common/model/weights.h"
#include "common/model_file/model_file.h"

namespace {

using baton::model::ModelDescription;
using baton::model::SegmentPlan;
using baton::model::WeightPool;
using baton::model::Weights;
using baton::model_file::ModelFile;

void load(std::span<const std::byte> bytes, const ModelDescription& description, int ranks,
          WeightPool pool) {
  const auto plan = SegmentPlan::create(description, 2, ranks);
  if (!plan.ok()) {
    return;
  }
  auto file = ModelFile::parse(bytes, "fuzz");
  BATON_CHECK(file.ok(), "parsed before");
  const auto weights = Weights::load(std::move(*file), description, *plan, pool);
  BATON_CHECK(weights.ok(), "what is described can be loaded");
  std::vector<float> row(static_cast<size_t>(description.hidden));
  (*weights)->embed(0, row.data());
  (*weights)->embed(description.vocab - 1, row.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = ModelFile::parse(bytes, "fuzz");
  if (!file.ok()) {
    return 0;
  }
  auto description = baton::model::describe(*file);
  if (!description.ok()) {
    const baton::Status status = description.status();
    BATON_CHECK(status.message().find('\n') == std::string::npos, "a message is one line");
    return 0;
  }
  // As the engine does; else most of the time goes into RoPE tables.
  description->max_context = std::min(description->max_context, 16);
  load(bytes, *description, 1, WeightPool::kDecode);
  load(bytes, *description, 2, WeightPool::kPrefill);
  return 0;
}
