#pragma once

// config.json of a model folder (transformers, versions 4 and 5) as the metadata that a GGUF file
// of the same model has.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/model_file/made_metadata.h"

namespace baton::model_file {

// What of a `model_type` is not in its config.
struct FolderArchitecture {
  std::string_view model_type;
  std::string_view architecture;  // general.architecture
  std::string_view activation;    // the only one
  uint32_t head_dim = 0;          // where the config names none; 0: hidden size over heads
  bool tied = false;              // where the config does not say
  // In its GGUF files rows of q and k lie in another order (TensorInfo::halved_head_rows).
  bool halved_heads = false;
  // In its GGUF files norm weights have one added, and norms before and after each block.
  bool norms_without_one = false;
};

struct FolderConfig {
  const FolderArchitecture* architecture = nullptr;
  MadeMetadata metadata;
  uint32_t head_dim = 0;
  bool tied = false;
};

// Nothing unknown is ignored: a key that Baton does not know is refused with its value, and one
// that asks for something else than Baton does is, too. What is a description's business (sizes
// that do not fit each other) is left to it. Messages start with `name`. unsupported: another
// model, or another key or value; invalid_argument: a key is missing or cannot be.
Result<FolderConfig> read_folder_config(std::string_view text, const std::string& name);

}  // namespace baton::model_file
