#pragma once

// For tests: a sequence in a KV pool that is hostile elsewhere, and attention word for word as
// docs/numerics.md defines it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/kernels/attention/attention.h"
#include "common/kernels/math/exp.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {

struct Shape {
  int rows = 1;
  int context = 1;  // keys that the last row sees
  int dim = 64;
  int heads = 3;  // query heads of the KV head
  int block_tokens = 32;
  float scale = 0.125f;
  int window = 0;

  // The first key that the row at `position` sees.
  int first_key(int position) const { return window > 0 ? std::max(0, position + 1 - window) : 0; }
  std::string text() const {
    return "rows " + std::to_string(rows) + " context " + std::to_string(context) + " dim " +
           std::to_string(dim) + " heads " + std::to_string(heads) + " block " +
           std::to_string(block_tokens) + " window " + std::to_string(window);
  }
};

inline constexpr Shape kEdgeShapes[] = {
    {1, 1, 64, 1, 32},    {1, 32, 64, 3, 32},    {1, 33, 128, 4, 32},   {2, 512, 64, 3, 64},
    {1, 513, 64, 3, 32},  {3, 514, 16, 5, 32},   {40, 40, 64, 3, 32},   {17, 520, 32, 3, 128},
    {1, 1500, 64, 3, 32}, {1, 1025, 256, 2, 64}, {5, 70, 80, 8, 32},    {4, 100, 2, 1, 32},
    {2, 45, 50, 2, 32},   {2, 600, 38, 7, 32},   {30, 1030, 16, 2, 96}, {1, 64, 64, 60, 32},
};

// Windows of one key, within a group, of whole groups, over split ends, wider than the context;
// tiles whose rows begin their windows in different groups and in different splits.
inline constexpr Shape kWindowShapes[] = {
    {5, 70, 64, 3, 32, 0.125f, 1},       {1, 33, 64, 2, 32, 0.125f, 2},
    {40, 90, 16, 3, 32, 0.125f, 7},      {1, 1000, 64, 3, 32, 0.125f, 32},
    {1, 1025, 64, 3, 64, 0.125f, 64},    {20, 530, 64, 4, 32, 0.125f, 16},
    {30, 545, 32, 2, 32, 0.125f, 20},    {3, 1536, 256, 4, 32, 0.0625f, 512},
    {2, 1030, 80, 5, 128, 0.125f, 600},  {12, 1100, 38, 1, 32, 0.125f, 513},
    {9, 100, 64, 3, 32, 0.125f, 100000}, {17, 520, 64, 3, 256, 0.125f, 40},
};

// Many rows or a long context, not both: the reference is slow.
inline Shape random_shape(SeededRandom& random) {
  const int dims[] = {16, 32, 64, 80, 128, 256};
  Shape shape;
  shape.dim = dims[random.next() % 6];
  shape.heads = 1 + static_cast<int>(random.next() % 8);
  shape.block_tokens = 32 << (random.next() % 3);
  const bool many_rows = random.next() % 2 == 0;
  shape.rows = 1 + static_cast<int>(random.next() % (many_rows ? 40 : 2));
  shape.context = shape.rows + static_cast<int>(random.next() % (many_rows ? 100 : 1460));
  shape.scale = random.next() % 4 == 0 ? 2.0f : 1.0f / std::sqrt(float(shape.dim));
  return shape;
}

inline Shape random_window_shape(SeededRandom& random) {
  Shape shape = random_shape(random);
  shape.window = 1 + static_cast<int>(random.next() % (random.next() % 2 == 0 ? 40 : 700));
  return shape;
}

class Scratch {
 public:
  explicit Scratch(size_t bytes) : data_(new(std::align_val_t{64}) std::byte[bytes]) {
    std::memset(data_, 0xFF, bytes);
  }
  ~Scratch() { operator delete[](data_, std::align_val_t{64}); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// A sequence in a pool of two KV heads, of which the second is used. Its blocks lie anywhere; all
// that the sequence does not own is NaN, and so are keys (not values) of absent slots in the last
// group. Blocks that lie before the window of the first row are not there.
class Sequence {
 public:
  Sequence(const Shape& shape, SeededRandom& random) : shape_(shape) {
    const int n_blocks = (shape.context + shape.block_tokens - 1) / shape.block_tokens;
    view_ = {.block_tokens = shape.block_tokens, .kv_heads = 2, .head_dim = shape.dim};
    view_.block_stride = 2 * view_.half_bytes() + 128;
    pool_.assign(view_.block_stride * (2 * n_blocks + 1), std::byte{0xFF});
    view_.base = pool_.data();
    std::vector<BlockId> ids(2 * n_blocks + 1);
    std::iota(ids.begin(), ids.end(), 0u);
    for (size_t i = ids.size() - 1; i > 0; --i) {
      std::swap(ids[i], ids[random.next() % (i + 1)]);
    }
    blocks_.assign(ids.begin(), ids.begin() + n_blocks);
    const int gone = shape.first_key(first_position()) / shape.block_tokens;
    std::fill_n(blocks_.begin(), gone, kNoBlock);
    const int end = (shape.context + 31) / 32 * 32;
    for (int position = gone * shape.block_tokens; position < end; ++position) {
      for (int d = 0; d < shape.dim; ++d) {
        const bool present = position < shape.context;
        value(position, d) = present ? draw(random) : 0;
        if (present) {
          key(position, d) = draw(random);
        }
      }
    }
    q_stride_ = (shape.heads + 2) * shape.dim + 3;
    q_.resize(size_t(shape.rows) * q_stride_);
    for (uint16_t& x : q_) {
      x = draw(random);
    }
  }

  uint16_t& key(int position, int d) {
    return group(position, false)[(d / 2) * 64 + (position % 32) * 2 + d % 2];
  }
  uint16_t& value(int position, int d) {
    return group(position, true)[((position % 32) / 2) * shape_.dim * 2 + d * 2 + position % 2];
  }
  float query(int row, int head, int d) const {
    return float_from_bf16(q_[size_t(row) * q_stride_ + (1 + head) * shape_.dim + d]);
  }
  int first_position() const { return shape_.context - shape_.rows; }
  const Shape& shape() const { return shape_; }
  int out_stride() const { return (shape_.heads + 1) * shape_.dim + 5; }

  // Rows [begin, end) as a step of `rows` rows that begins at `first_row`, into `out`. `kernel` is
  // called as attention() without the level.
  template <class Kernel>
  void run(Kernel kernel, int first_row, int rows, int begin, int end, std::vector<uint16_t>& out) {
    AttentionParams p;
    p.q = q_.data() + size_t(first_row) * q_stride_;
    p.q_stride = q_stride_;
    p.out = out.data() + size_t(first_row) * out_stride();
    p.out_stride = out_stride();
    p.rows = rows;
    p.first_position = first_position() + first_row;
    p.window = shape_.window;
    p.blocks = blocks_;
    p.kv = view_;
    p.kv_head = 1;
    p.q_head_begin = 1;
    p.q_head_end = 1 + shape_.heads;
    p.scale = shape_.scale;
    const auto isa = device::Isa::kScalar;  // the size is the same at all levels
    const Scratch scratch(attention_scratch_bytes(isa, shape_.dim, p.first_position + end));
    kernel(p, begin, end, scratch.data());
  }
  template <class Kernel>
  std::vector<uint16_t> run_all(Kernel kernel) {
    std::vector<uint16_t> out(size_t(shape_.rows) * out_stride(), 0x7FFF);
    run(kernel, 0, shape_.rows, 0, shape_.rows, out);
    return out;
  }

 private:
  static uint16_t draw(SeededRandom& random) {
    const auto bits = static_cast<int32_t>(random.next() >> 32);
    return bf16_from_float(4.0f * static_cast<float>(bits) * 0x1p-31f);
  }
  uint16_t* group(int position, bool values) {
    const BlockId block = blocks_[position / shape_.block_tokens];
    const int in_block = position % shape_.block_tokens / 32;
    return reinterpret_cast<uint16_t*>(values ? view_.v_group(block, 1, in_block)
                                              : view_.k_group(block, 1, in_block));
  }

  Shape shape_;
  KvLayerView view_;
  std::vector<std::byte> pool_;
  std::vector<BlockId> blocks_;
  std::vector<uint16_t> q_;
  int q_stride_ = 0;
};

// The canonical dot product of docs/numerics.md; shorter operands are padded with zeros.
inline float canonical_dot(const std::vector<float>& a, const std::vector<float>& b) {
  float c = 0;
  for (size_t block = 0; block < a.size(); block += 32) {
    float even = 0;
    float odd = 0;
    for (size_t i = block; i < std::min(a.size(), block + 32); i += 2) {
      even = std::fma(a[i], b[i], even);
      if (i + 1 < a.size()) {
        odd = std::fma(a[i + 1], b[i + 1], odd);
      }
    }
    c = c + (even + odd);
  }
  return c;
}

inline float strided_sum(const std::vector<float>& p) {
  float partial[16] = {};
  for (size_t j = 0; j < p.size(); ++j) {
    partial[j % 16] += p[j];
  }
  for (int half : {8, 4, 2, 1}) {
    for (int i = 0; i < half; ++i) {
      partial[i] += partial[i + half];
    }
  }
  return partial[0];
}

struct ReferenceSplit {
  float m = 0, l = 0;
  std::vector<float> o;
};

// Of the keys [begin, end) those from `first` on are visible.
inline ReferenceSplit reference_split(Sequence& s, int row, int head, int begin, int end) {
  const int first = std::max(begin, s.shape().first_key(s.first_position() + row));
  const int dim = s.shape().dim;
  std::vector<float> q(dim);
  for (int d = 0; d < dim; ++d) {
    q[d] = s.query(row, head, d);
  }
  std::vector<float> scores;
  for (int j = first; j < end; ++j) {
    std::vector<float> k(dim);
    for (int d = 0; d < dim; ++d) {
      k[d] = float_from_bf16(s.key(j, d));
    }
    scores.push_back(canonical_dot(q, k) * s.shape().scale);
  }
  ReferenceSplit result;
  result.m = *std::max_element(scores.begin(), scores.end());
  std::vector<float> p(first - begin, 0.0f);
  for (float score : scores) {
    p.push_back(float_from_bf16(bf16_from_float(exp_canonical(score - result.m))));
  }
  result.l = strided_sum(p);
  for (int d = 0; d < dim; ++d) {
    std::vector<float> v;
    for (int j = begin; j < end; ++j) {
      v.push_back(j < first ? 0 : float_from_bf16(s.value(j, d)));
    }
    result.o.push_back(canonical_dot(p, v));
  }
  return result;
}

// docs/numerics.md "Attention", word for word.
inline std::vector<uint16_t> reference(Sequence& s, int row, int head) {
  const int visible = s.first_position() + row + 1;
  std::vector<ReferenceSplit> splits;
  const int first = s.shape().first_key(visible - 1);
  for (int begin = first / 512 * 512; begin < visible; begin += 512) {
    splits.push_back(reference_split(s, row, head, begin, std::min(visible, begin + 512)));
  }
  float m = splits[0].m;
  for (const ReferenceSplit& split : splits) {
    m = std::max(m, split.m);
  }
  float l = 0;
  std::vector<float> o(s.shape().dim, 0.0f);
  for (const ReferenceSplit& split : splits) {
    const float w = exp_canonical(split.m - m);
    l = std::fma(w, split.l, l);
    for (size_t d = 0; d < o.size(); ++d) {
      o[d] = std::fma(w, split.o[d], o[d]);
    }
  }
  std::vector<uint16_t> out;
  for (float x : o) {
    out.push_back(bf16_from_float(x * (1.0f / l)));
  }
  return out;
}

// Every output of `out`, and that nothing beside the heads was written.
inline void expect_reference(Sequence& s, const std::vector<uint16_t>& out) {
  const Shape& shape = s.shape();
  for (int row = 0; row < shape.rows; ++row) {
    const uint16_t* line = out.data() + size_t(row) * s.out_stride();
    for (int head = 0; head < shape.heads; ++head) {
      const std::vector<uint16_t> expected = reference(s, row, head);
      ASSERT_EQ(std::memcmp(expected.data(), line + (1 + head) * shape.dim, 2 * shape.dim), 0)
          << shape.text() << ", row " << row << " head " << head;
    }
    for (int d = 0; d < shape.dim; ++d) {
      ASSERT_EQ(line[d], 0x7FFF);
    }
    ASSERT_EQ(line[(1 + shape.heads) * shape.dim], 0x7FFF);
  }
}

}  // namespace baton::kernels
