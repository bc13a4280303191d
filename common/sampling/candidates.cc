#include "common/sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "common/sampling/row_ops.h"

namespace baton::sampling {
namespace {

// Below this many, comparing beats three passes.
constexpr size_t kRadixMinimum = 2048;
constexpr int kRadixBits = 11;
constexpr uint32_t kRadixMask = (1u << kRadixBits) - 1;

// Ascending keys are descending values; -0 and +0 are one value.
uint32_t descending_key(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? bits : ~(bits | 0x80000000u);
}

constexpr int kRadixPasses = 3;
using RadixStarts = std::array<std::array<uint32_t, kRadixMask + 1>, kRadixPasses>;

uint32_t radix_digit(uint32_t key, int pass) { return (key >> (pass * kRadixBits)) & kRadixMask; }

// Where each digit's candidates start, for every pass.
void count_digits(const std::vector<Candidate>& all, RadixStarts& starts) {
  for (const Candidate& c : all) {
    const uint32_t key = descending_key(c.value);
    for (int pass = 0; pass < kRadixPasses; ++pass) {
      ++starts[static_cast<size_t>(pass)][radix_digit(key, pass)];
    }
  }
  for (auto& pass : starts) {
    uint32_t start = 0;
    for (uint32_t& count : pass) {
      start += std::exchange(count, start);
    }
  }
}

// Precondition: ids ascend. The radix passes are stable, so they stay so among equal values.
void sort_candidates(Scratch& scratch) {
  std::vector<Candidate>& all = scratch.candidates;
  if (all.size() < kRadixMinimum) {
    std::sort(all.begin(), all.end(), ranks_before);
    return;
  }
  scratch.exchange.resize(all.size());
  RadixStarts starts{};
  count_digits(all, starts);
  for (int pass = 0; pass < kRadixPasses; ++pass) {
    for (const Candidate& c : all) {
      const uint32_t digit = radix_digit(descending_key(c.value), pass);
      scratch.exchange[starts[static_cast<size_t>(pass)][digit]++] = c;
    }
    all.swap(scratch.exchange);
  }
}

// Everything >= threshold, by ascending id.
void collect(std::span<const float> row, std::span<const float> maxima, float threshold,
             std::vector<Candidate>& out) {
  out.clear();
  for (size_t chunk = 0; chunk < maxima.size(); ++chunk) {
    if (maxima[chunk] < threshold) {
      continue;
    }
    const size_t begin = chunk * kChunk;
    const size_t end = std::min(begin + kChunk, row.size());
    for (size_t i = begin; i < end; ++i) {
      if (row[i] >= threshold) {
        out.push_back({row[i], static_cast<TokenId>(i)});
      }
    }
  }
}

}  // namespace

bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

void select_top(std::span<const float> row, std::span<const float> maxima, size_t k,
                Scratch& scratch) {
  float threshold = -std::numeric_limits<float>::infinity();
  if (k < maxima.size()) {
    // k chunks reach this value, so the k-th token does.
    scratch.maxima_order.assign(maxima.begin(), maxima.end());
    const auto kth = scratch.maxima_order.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(scratch.maxima_order.begin(), kth, scratch.maxima_order.end(),
                     std::greater<float>());
    threshold = *kth;
  }
  std::vector<Candidate>& all = scratch.candidates;
  collect(row, maxima, threshold, all);
  if (all.size() > k && k < kRadixMinimum) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(),
                     ranks_before);
    all.resize(k);
  }
  sort_candidates(scratch);
  all.resize(std::min(all.size(), k));
}

void select_from(std::span<const float> row, std::span<const float> maxima, float threshold,
                 Scratch& scratch) {
  collect(row, maxima, threshold, scratch.candidates);
  sort_candidates(scratch);
}

size_t top_p_prefix(std::span<const float> weights, double p, double total, double& kept) {
  const double target = p * total;
  kept = 0.0;
  for (size_t i = 0; i < weights.size(); ++i) {
    kept += static_cast<double>(weights[i]);
    if (kept >= target) {
      return i + 1;
    }
  }
  return weights.size();
}

double sum_in_order(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) {
    sum += static_cast<double>(value);
  }
  return sum;
}

size_t draw_in_order(std::span<const float> weights, double u, double total) {
  const double target = u * total;
  double sum = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0f) {
      last = i;
    }
    sum += static_cast<double>(weights[i]);
    if (sum > target) {
      break;
    }
  }
  return last;
}

size_t draw_in_blocks(std::span<const float> weights, std::span<const float> block_sums, double u,
                      double total) {
  // u < 1 and total is the sum of the blocks in order, so some block reaches the target.
  const double target = u * total;
  double before = 0.0;
  size_t block = 0;
  while (block + 1 < block_sums.size() &&
         before + static_cast<double>(block_sums[block]) <= target) {
    before += static_cast<double>(block_sums[block++]);
  }
  const size_t begin = block * kBlock;
  const size_t end = std::min(begin + kBlock, weights.size());
  size_t chosen = begin;
  double sum = before;
  for (size_t i = begin; i < end; ++i) {
    chosen = weights[i] > 0.0f ? i : chosen;
    sum += static_cast<double>(weights[i]);
    if (sum > target) {
      break;
    }
  }
  return chosen;
}

}  // namespace baton::sampling
