#pragma once

// A model folder as transformers writes it: config.json, and the weights in model.safetensors or in
// the shards that model.safetensors.index.json names. Read as the GGUF file of the same model:
// under its names, rows of q and k in its order, norm weights as it has them.

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/model_file/folder_config.h"
#include "common/model_file/model_file.h"
#include "common/model_file/safetensors.h"

namespace baton::model_file {

// Precondition: `path` is a directory. Errors as ModelFile::open; a missing or contradicting shard
// is named.
Result<ModelFileContents> open_safetensors_folder(const std::string& path);

// The folder at `path` with this config and these tensors of all its shards, whose bytes outlive
// the result; it has no files.
Result<ModelFileContents> join_folder(const std::string& path, FolderConfig config,
                                      std::span<const SafetensorsTensor> tensors);

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; a name that Baton does not
// know stays what it is.
std::string gguf_tensor_name(std::string_view name, const FolderArchitecture& architecture);

}  // namespace baton::model_file
