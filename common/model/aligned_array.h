#pragma once

// A zeroed array for activations, 64-byte aligned so that rows of 16 floats start at a cache line.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "common/base/check.h"

namespace baton::model {

template <typename T>
class AlignedArray final {
 public:
  static_assert(std::is_trivial_v<T>);

  AlignedArray() = default;
  // Memory that cannot be had aborts: activations are sized by the configuration.
  explicit AlignedArray(size_t size) : size_(size) {
    if (size == 0) {
      return;
    }
    const size_t bytes = (size * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    BATON_CHECK(data_ != nullptr, "out of memory for activations");
    std::memset(data_.get(), 0, bytes);
  }

  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace baton::model
