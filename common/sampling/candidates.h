#pragma once

// Choosing among tokens: the exact k greatest, sorted; prefixes by probability; the draw. Order is
// (value descending, id ascending) everywhere, sums are f64 in that order (README.md).

#include <cstddef>
#include <span>
#include <vector>

#include "common/sampling/scratch.h"

namespace baton::sampling {

bool ranks_before(const Candidate& a, const Candidate& b);

// The min(k, row) first candidates of the row, in order, into scratch.candidates. `maxima` are
// those of its chunks (row_ops.h). O(row + k log k) with few passes over the row.
void select_top(std::span<const float> row, std::span<const float> maxima, size_t k,
                Scratch& scratch);
// Those with value >= threshold, in order, into scratch.candidates.
void select_from(std::span<const float> row, std::span<const float> maxima, float threshold,
                 Scratch& scratch);

// How many of the sorted weights top-p keeps: the shortest prefix whose sum reaches p * total, at
// least one; all when none does. The prefix's sum goes to `kept`.
size_t top_p_prefix(std::span<const float> weights, double p, double total, double& kept);

double sum_in_order(std::span<const float> values);

// Index of the first weight at which the running sum exceeds u * total; the last weight above 0 if
// rounding leaves none. Never a weight of 0, unless all are.
size_t draw_in_order(std::span<const float> weights, double u, double total);
// The same over a whole row: block by block with the given sums, then inside the block.
size_t draw_in_blocks(std::span<const float> weights, std::span<const float> block_sums, double u,
                      double total);

}  // namespace baton::sampling
