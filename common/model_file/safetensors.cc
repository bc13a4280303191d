#include "common/model_file/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

#include "common/model_file/json_text.h"
#include "common/model_file/model_file.h"

namespace baton::model_file {
namespace {

namespace json = boost::json;

// Of published models the largest has three. The limit also bounds what parsing allocates.
constexpr uint64_t kMaxHeaderBytes = 32ull << 20;
constexpr uint64_t kMaxTensors = 1u << 17;
constexpr uint64_t kMaxDim = 1ull << 32;
constexpr size_t kMaxDims = 4;

std::optional<TensorType> type_of(std::string_view dtype) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    if (dtype == tensor_type_info(type).name) {
      return type;
    }
  }
  return std::nullopt;
}

class Parser final {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::vector<SafetensorsTensor>> run() {
    BATON_ASSIGN_OR_RETURN(const json::value header, read_header());
    const json::object* entries = header.if_object();
    if (entries == nullptr || entries->size() > kMaxTensors) {
      return invalid_argument(entries == nullptr
                                  ? std::string("its header is no JSON object")
                                  : "has more than " + std::to_string(kMaxTensors) + " tensors");
    }
    for (const auto& [name, value] : *entries) {
      if (name != "__metadata__") {
        BATON_RETURN_IF_ERROR(read_tensor(name, value));
      }
    }
    BATON_RETURN_IF_ERROR(check_filled());
    return std::move(tensors_);
  }

 private:
  Result<json::value> read_header() {
    uint64_t size = 0;
    if (bytes_.size() < sizeof(size)) {
      return invalid_argument("ends inside the header; the file is truncated");
    }
    std::memcpy(&size, bytes_.data(), sizeof(size));
    if (size > kMaxHeaderBytes) {
      return invalid_argument("is no safetensors file, or its header of " + std::to_string(size) +
                              " bytes is longer than " + std::to_string(kMaxHeaderBytes));
    }
    if (size > bytes_.size() - sizeof(size)) {
      return invalid_argument("ends inside the header; the file is truncated");
    }
    data_ = bytes_.subspan(sizeof(size) + size);
    return parse_json({reinterpret_cast<const char*>(bytes_.data()) + sizeof(size), size});
  }

  Status read_tensor(std::string_view name, const json::value& value) {
    const std::string what = "tensor " + quoted(name);
    const json::object* entry = value.if_object();
    const json::value* dtype = entry != nullptr ? entry->if_contains("dtype") : nullptr;
    if (dtype == nullptr || !dtype->is_string()) {
      return invalid_argument(what + " has no 'dtype'");
    }
    SafetensorsTensor tensor;
    tensor.name = std::string(name);
    const auto type = type_of(dtype->get_string());
    if (!type) {
      return unsupported(what + " has dtype " + quoted(dtype->get_string()) +
                         "; Baton reads F32 F16 BF16");
    }
    tensor.type = *type;
    BATON_RETURN_IF_ERROR(read_shape(entry->if_contains("shape"), what, tensor));
    BATON_RETURN_IF_ERROR(read_place(entry->if_contains("data_offsets"), what, tensor));
    tensors_.push_back(std::move(tensor));
    return {};
  }

  static Status read_shape(const json::value* shape, const std::string& what,
                           SafetensorsTensor& tensor) {
    const json::array* dims = shape != nullptr ? shape->if_array() : nullptr;
    if (dims == nullptr || dims->empty() || dims->size() > kMaxDims) {
      return invalid_argument(what + " has no 'shape' of 1 to 4 dimensions");
    }
    for (const json::value& dim : *dims) {
      const std::optional<uint64_t> extent = whole_number(dim);
      if (!extent || *extent == 0 || *extent > kMaxDim) {
        return invalid_argument(what + ": a dimension is " + shown_json(dim) +
                                "; it must be 1 to " + std::to_string(kMaxDim));
      }
      tensor.shape.push_back(*extent);
    }
    return {};
  }

  Status read_place(const json::value* place, const std::string& what, SafetensorsTensor& tensor) {
    const json::array* offsets = place != nullptr ? place->if_array() : nullptr;
    if (offsets == nullptr || offsets->size() != 2) {
      return invalid_argument(what + " has no 'data_offsets' of two numbers");
    }
    const std::optional<uint64_t> begin = whole_number((*offsets)[0]);
    const std::optional<uint64_t> end = whole_number((*offsets)[1]);
    if (!begin || !end || *begin > *end) {
      return invalid_argument(what + " has 'data_offsets' that are no range");
    }
    if (*end > data_.size()) {
      return invalid_argument(what + " ends at byte " + std::to_string(*end) + " of " +
                              std::to_string(data_.size()) +
                              " bytes of data; the file is truncated");
    }
    uint64_t left = (*end - *begin) / tensor_type_info(tensor.type).block_bytes;
    bool fits = (*end - *begin) % tensor_type_info(tensor.type).block_bytes == 0;
    for (const uint64_t extent : tensor.shape) {
      fits = fits && left % extent == 0;
      left /= extent;
    }
    if (!fits || left != 1) {
      return invalid_argument(what + " has " + std::to_string(*end - *begin) +
                              " bytes, which is not what its shape and dtype take");
    }
    tensor.data = data_.subspan(*begin, *end - *begin);
    return {};
  }

  Status check_filled() {
    std::ranges::sort(tensors_, {}, [](const SafetensorsTensor& t) { return t.data.data(); });
    const std::byte* at = data_.data();
    for (const SafetensorsTensor& tensor : tensors_) {
      if (tensor.data.data() != at) {
        return invalid_argument("tensor " + quoted(tensor.name) +
                                " does not begin where the one before it ends");
      }
      at += tensor.data.size();
    }
    if (at != data_.data() + data_.size()) {
      return invalid_argument("has bytes behind its last tensor");
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace

Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes) {
  return Parser(bytes).run();
}

}  // namespace baton::model_file
