#include "common/model/forward_pass.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/kernels/attention/attention.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/small/small_ops.h"

namespace baton::model {
namespace {

// How a product of all rows with all panels is cut into work items. Many rows an item spare work
// (packed weights are expanded once an item), but there must be items for all threads.
struct Tiling {
  int grain = 1;   // panels of an item
  int groups = 1;  // of panels
  int tile = 1;    // rows of an item
  int tiles = 1;

  int items() const { return groups * tiles; }
};
constexpr int kMinRowTile = 96;
constexpr int kMaxRowTile = 576;  // x then stays in the L2 cache: 663 KB at a hidden size of 576
// Up to so many rows one thread makes a norm of all sooner than a barrier lets all threads share
// it.
constexpr int kFewRows = 16;
constexpr int kMaxRowGrain = 16;                     // rows of an item where each is small work
constexpr size_t kMaxTileBytes = size_t{160} << 10;  // of results that a thread keeps to itself

// Slots of the thread's scratch.
enum ScratchSlot { kMatmulScratch = 0, kAttentionScratch, kGateUpScratch, kGatedScratch };

Range share(int n, int index, int count) {
  const auto at = [&](int i) { return static_cast<int>(int64_t{n} * i / count); };
  return {at(index), at(index + 1)};
}

Tiling tiling(int rows, int panels, int grain, int threads, int max_tile = kMaxRowTile) {
  Tiling t;
  t.grain = std::min(grain, panels);
  t.groups = ceil_div(panels, t.grain);
  const int wanted_tiles = ceil_div(kItemsPerThread * threads, t.groups);
  const int even_tile = ceil_div(ceil_div(rows, wanted_tiles), 32) * 32;
  t.tile = std::min(rows, std::clamp(even_tile, std::min(kMinRowTile, max_tile), max_tile));
  t.tiles = ceil_div(rows, t.tile);
  // Few rows, many threads: panels go in pairs at least.
  if (t.items() < threads && t.grain > 2) {
    t.grain = std::max(2, panels * t.tiles / (kItemsPerThread * threads) / 2 * 2);
    t.groups = ceil_div(panels, t.grain);
  }
  return t;
}

int panels_of(int columns) { return ceil_div(columns, kernels::kPanelRows); }

// The kernel writes panel p at y + 16 * p; `y` is where panel `first` shall go.
float* base_of_panel(float* y, int first) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(y) -
                                  sizeof(float) * kernels::kPanelRows * static_cast<size_t>(first));
}

}  // namespace

ForwardPass::ForwardPass(const ForwardState& state, device::TeamThread& thread,
                         const ForwardHooks& hooks)
    : s_(state),
      thread_(thread),
      hooks_(hooks),
      model_(state.weights.description()),
      weights_(state.weights.rank(thread.rank)),
      rank_(state.ranks[static_cast<size_t>(thread.rank)]),
      isa_(state.options.isa),
      rows_(state.rows()),
      few_rows_(rows_ <= kFewRows),
      logits_rows_(static_cast<int>(state.logits_rows.size())) {}

template <typename Body>
void ForwardPass::region(Meet meet, const Body& body) {
  // The counters go round: the one that is cleared here was used four regions ago and will be again
  // in four, with barriers between, so clearing needs none of its own.
  if (thread_.thread == 0) {
    thread_.reset_counter((region_ + kCounters / 2) % kCounters);
  }
  if (thread_.present()) {
    body();
  }
  if (meet == Meet::kRank) {
    thread_.rank_barrier();
  } else {
    thread_.team_barrier();
  }
  ++region_;
}

template <typename Body>
void ForwardPass::share_out(int n, const Body& body) {
  const int counter = region_ % kCounters;
  for (int i = 0; (i = thread_.next(counter, n)) < n;) {
    body(i);
  }
}

template <typename Body>
void ForwardPass::share_out_rows(const Range& rows, const Body& body) {
  const int n = rows.count();
  const int grain = std::clamp(n / (kItemsPerThread * thread_.lanes), 1, kMaxRowGrain);
  share_out(ceil_div(n, grain), [&](int item) {
    const int begin = rows.begin + item * grain;
    body(begin, std::min(begin + grain, rows.end));
  });
}

void ForwardPass::run() {
  for (int layer = 0; layer < model_.layers; ++layer) {
    attention_half(layer);
    ffn_half(layer);
    if (hooks_.layer_done && thread_.rank == 0 && thread_.thread == 0) {
      hooks_.layer_done(layer);
    }
  }
  head();
}

void ForwardPass::embed(int begin, int end) {
  for (int row = begin; row < end; ++row) {
    s_.weights.embed(s_.tokens[row], s_.residual.data() + size_t(row) * model_.hidden);
  }
}

namespace {

const float* data_or_null(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

// Of the heads of a rank.
const float* bias_of(const std::vector<float>& bias, int first_head, int head_dim) {
  return bias.empty() ? nullptr : bias.data() + size_t(first_head) * head_dim;
}

}  // namespace

ForwardPass::Norm ForwardPass::after_ffn(int layer_before, const std::vector<float>& weight) const {
  if (layer_before < 0) {
    return {.weight = weight.data()};
  }
  return {.parts = s_.ffn_parts,
          .part_weight = data_or_null(s_.weights.vectors(layer_before).ffn_post_norm),
          .weight = weight.data()};
}

kernels::ResidualNormParams ForwardPass::norm_params(const Norm& norm) const {
  return {.residual = s_.residual.data(),
          .parts = norm.parts,
          .part_stride = s_.hidden_f32_stride,
          .part_weight = norm.part_weight,
          .weight = norm.weight,
          .x = s_.x.data(),
          .x_stride = s_.hidden_bf16_stride,
          .n = model_.hidden,
          .eps = model_.norm_eps};
}

ForwardPass::Operand ForwardPass::Operand::at(int row, int column) const {
  Operand part = *this;
  part.x += size_t(row) * stride + column;
  if (codes != nullptr) {
    part.codes += size_t(row) * code_stride() + column / kernels::kBlockK;
  }
  return part;
}

ForwardPass::Operand ForwardPass::operand(const AlignedArray<uint16_t>& x, int stride,
                                          const AlignedArray<kernels::CodeBlock>& codes,
                                          int count) const {
  return {.x = x.data(), .stride = stride, .codes = s_.codes_rows(count) ? codes.data() : nullptr};
}

ForwardPass::Operand ForwardPass::normed_rows() const {
  return operand(s_.x, s_.hidden_bf16_stride, s_.x_codes, rows_);
}

ForwardPass::Operand ForwardPass::attention_rows() const {
  return operand(rank_.attention, weights_.columns.attention_columns, rank_.attention_codes, rows_);
}

ForwardPass::Operand ForwardPass::ffn_rows() const {
  return operand(rank_.ffn, weights_.columns.ffn_columns, rank_.ffn_codes, rows_);
}

void ForwardPass::code(const Operand& operand, int rows, int columns) {
  for (int row = 0; row < rows && operand.codes != nullptr; ++row) {
    const Operand one = operand.at(row, 0);
    kernels::code_row(one.x, ceil_div(columns, kernels::kBlockK), one.codes);
  }
}

void ForwardPass::norm_rows(const Norm& norm, int begin, int end) {
  kernels::residual_norm(isa_, norm_params(norm), begin, end);
  code(normed_rows().at(begin, 0), end - begin, model_.hidden);
}

void ForwardPass::norm(const Norm& norm, bool first) {
  share_out_rows(share(rows_, thread_.rank, thread_.ranks), [&](int begin, int end) {
    if (first) {
      embed(begin, end);
    }
    norm_rows(norm, begin, end);
  });
}

void ForwardPass::attention_half(int layer) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const LayerVectors& v = s_.weights.vectors(layer);
  if (layer == 0 || !few_rows_) {
    // What the layer before left in `parts` is added here.
    region(Meet::kTeam, [&] { norm(after_ffn(layer - 1, v.attn_norm), layer == 0); });
  }
  qkv(layer);
  if (hooks_.kv_written && thread_.thread == 0) {
    hooks_.kv_written(thread_.rank, layer);
  }
  region(Meet::kRank, [&] { attend(layer); });
  if (hooks_.attended && thread_.thread == 0) {
    hooks_.attended(thread_.rank, layer);
  }
  const auto after = [&]() -> Norm {
    return {.parts = s_.attention_parts,
            .part_weight = data_or_null(v.attn_post_norm),
            .weight = v.ffn_norm.data()};
  };
  region(Meet::kTeam, [&] {
    const Norm next = after();
    row_product(w.attn_output, attention_rows(), &next);
  });
  if (!few_rows_) {
    region(Meet::kTeam, [&] { norm(after(), false); });
  }
}

void ForwardPass::ffn_half(int layer) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  region(Meet::kRank, [&] { gate_up(w.gate_up); });
  region(Meet::kTeam, [&] {
    if (layer + 1 < model_.layers) {
      const Norm next = after_ffn(layer, s_.weights.vectors(layer + 1).attn_norm);
      row_product(w.ffn_down, ffn_rows(), &next);
    } else {
      row_product(w.ffn_down, ffn_rows(), nullptr);  // head() makes the norm of the rows it wants
    }
  });
}

kernels::KvLayerView ForwardPass::kv_view(int layer) const {
  const kv_cache::KvPool& pool = s_.pools[static_cast<size_t>(thread_.rank)];
  return {.base = pool.layer_base(layer),
          .block_stride = pool.block_bytes(),
          .block_tokens = pool.layout().block_tokens,
          .kv_heads = pool.heads().count(),
          .head_dim = model_.head_dim};
}

kernels::QkvParams ForwardPass::qkv_params(int layer) const {
  const RankColumns& columns = weights_.columns;
  const LayerVectors& v = s_.weights.vectors(layer);
  return {.qkv = rank_.qkv.data(),
          .qkv_stride = weights_.layers[static_cast<size_t>(layer)].qkv.columns,
          .q_column = columns.q,
          .k_column = columns.k,
          .v_column = columns.v,
          .q_heads = columns.query_heads.count(),
          .q_bias = bias_of(v.q_bias, columns.query_heads.begin, model_.head_dim),
          .k_bias = bias_of(v.k_bias, columns.kv_heads.begin, model_.head_dim),
          .v_bias = bias_of(v.v_bias, columns.kv_heads.begin, model_.head_dim),
          .q_norm = data_or_null(v.q_norm),
          .k_norm = data_or_null(v.k_norm),
          .eps = model_.norm_eps,
          .q_out = rank_.q.data(),
          .q_stride = columns.query_heads.count() * model_.head_dim,
          .kv = kv_view(layer),
          .rope = s_.weights.rope(layer),
          .positions = s_.positions.data(),
          .slot_block = s_.slot_blocks[static_cast<size_t>(group_of(layer))].data()};
}

void ForwardPass::qkv(int layer) {
  const Projection& projection = weights_.layers[static_cast<size_t>(layer)].qkv;
  if (model_.head_dim % kernels::kPanelRows == 0) {
    region(Meet::kRank, [&] { qkv_by_heads(projection, qkv_params(layer)); });
    return;
  }
  // Heads share panels.
  region(Meet::kRank, [&] { column_product(projection, qkv_rows(projection)); });
  region(Meet::kRank, [&] {
    const kernels::QkvParams params = qkv_params(layer);
    share_out_rows({0, rows_},
                   [&](int begin, int end) { kernels::rope_and_store(isa_, params, begin, end); });
  });
}

ForwardPass::Rows ForwardPass::qkv_rows(const Projection& projection) const {
  return {
      .x = normed_rows(), .count = rows_, .y = rank_.qkv.data(), .y_stride = projection.columns};
}

// Heads fill whole panels, so those of q, k and v follow each other: an item is some of them.
void ForwardPass::qkv_by_heads(const Projection& projection, kernels::QkvParams params) {
  const Rows all = qkv_rows(projection);
  const int head_panels = model_.head_dim / kernels::kPanelRows;
  const int heads = params.q_heads + 2 * params.kv.kv_heads;
  const kernels::PackedMatrix& first = projection.parts.front().weights;
  const int grain = ceil_div(
      kernels::matmul_panel_grain(isa_, first.format(), rows_, first.padded_k()), head_panels);
  const Tiling t = tiling(rows_, heads, heads / grain < thread_.lanes ? 1 : grain, thread_.lanes);
  share_out(t.items(), [&](int item) {
    const int row = item / t.groups * t.tile;
    const int count = std::min(t.tile, rows_ - row);
    params.head_begin = item % t.groups * t.grain;
    params.head_end = std::min(params.head_begin + t.grain, heads);
    const int panel = params.head_begin * head_panels;
    multiply(projection, panel, params.head_end * head_panels,
             {.x = all.x.at(row, 0),
              .count = count,
              .y = all.y + size_t(row) * all.y_stride + kernels::kPanelRows * panel,
              .y_stride = all.y_stride});
    kernels::rope_and_store(isa_, params, row, row + count);
  });
}

void ForwardPass::attend(int layer) {
  const RankColumns& columns = weights_.columns;
  const int q_stride = columns.query_heads.count() * model_.head_dim;
  // A power of two, so that a growing context does not grow the scratch at every step.
  const auto context = static_cast<int>(std::bit_ceil(static_cast<unsigned>(s_.context)));
  std::byte* scratch = thread_.scratch(
      kAttentionScratch, kernels::attention_scratch_bytes(isa_, model_.head_dim, context));
  share_out(static_cast<int>(rank_.items.size()), [&](int i) {
    const AttentionItem& item = rank_.items[static_cast<size_t>(i)];
    const HeadGroup& group = rank_.groups[static_cast<size_t>(item.group)];
    const ForwardSequence& sequence = s_.sequences[static_cast<size_t>(item.sequence)];
    const auto row = static_cast<size_t>(s_.first_rows[static_cast<size_t>(item.sequence)]);
    // The kernel puts head h at h * head_dim; the padding between segments shifts it.
    const int shift = columns.attention_head[static_cast<size_t>(group.q_head_begin)] -
                      group.q_head_begin * model_.head_dim;
    const kernels::AttentionParams params = {
        .q = rank_.q.data() + row * q_stride,
        .q_stride = q_stride,
        .out = rank_.attention.data() + row * columns.attention_columns + shift,
        .out_stride = columns.attention_columns,
        .rows = static_cast<int>(sequence.tokens.size()),
        .first_position = sequence.first_position,
        .window = model_.window(layer),
        .blocks = sequence.table(group_of(layer)),
        .kv = kv_view(layer),
        .kv_head = group.kv_head,
        .q_head_begin = group.q_head_begin,
        .q_head_end = group.q_head_end,
        .scale = model_.attention_scale,
        .arithmetic = s_.options.arithmetic};
    if (item.merge < 0) {
      kernels::attention(isa_, params, item.row_begin, item.row_end, scratch);
    } else if (!attend_part(item, params, scratch)) {
      return;
    }
    const int column = columns.attention_head[static_cast<size_t>(group.q_head_begin)];
    code(attention_rows().at(static_cast<int>(row) + item.row_begin, column),
         item.row_end - item.row_begin, (group.q_head_end - group.q_head_begin) * model_.head_dim);
  });
}

bool ForwardPass::attend_part(const AttentionItem& item, const kernels::AttentionParams& params,
                              std::byte* scratch) {
  const AttentionMerge& merge = rank_.merges[static_cast<size_t>(item.merge)];
  float* parts = rank_.merge_parts.data() + merge.parts;
  kernels::attention_part(isa_, params,
                          {item.row_begin, item.row_end, {item.split_begin, item.split_end}}, parts,
                          scratch);
  // Release what was written here, acquire what others wrote.
  const std::atomic_ref<int> done(rank_.merge_counts.data()[item.merge]);
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == merge.items) {
    done.store(0, std::memory_order_relaxed);  // for the next layer, beyond the next barrier
    kernels::attention_merge(isa_, params, item.row_begin, item.row_end, parts);
    return true;
  }
  return false;
}

void ForwardPass::multiply(const Projection& projection, int begin, int end, const Rows& rows) {
  float* y = rows.y;
  while (begin < end) {
    const ProjectionPart& part = projection.part_of(begin);
    const kernels::PackedMatrix& matrix = part.weights;
    const int stop = std::min(end, part.first_panel + matrix.panels());
    const int local = begin - part.first_panel;
    const kernels::MatmulParams params = {.weights = &matrix,
                                          .x = rows.x.x,
                                          .x_stride = rows.x.stride,
                                          .rows = rows.count,
                                          .y = base_of_panel(y, local),
                                          .y_stride = rows.y_stride,
                                          .arithmetic = s_.options.arithmetic,
                                          .codes = rows.x.codes,
                                          .codes_stride = rows.x.code_stride()};
    std::byte* scratch = thread_.scratch(
        kMatmulScratch,
        kernels::matmul_scratch_bytes(isa_, matrix.format(), rows.count, matrix.padded_k()));
    kernels::matmul(isa_, params, local, stop - part.first_panel, scratch);
    y += kernels::kPanelRows * (stop - begin);
    begin = stop;
  }
}

void ForwardPass::column_product(const Projection& projection, const Rows& rows) {
  const kernels::PackedMatrix& first = projection.parts.front().weights;
  const Tiling t =
      tiling(rows.count, projection.panels,
             kernels::matmul_panel_grain(isa_, first.format(), rows.count, first.padded_k()),
             thread_.lanes);
  share_out(t.items(), [&](int item) {
    const int row = item / t.groups * t.tile;
    const int begin = item % t.groups * t.grain;
    const int end = std::min(begin + t.grain, projection.panels);
    multiply(projection, begin, end,
             {.x = rows.x.at(row, 0),
              .count = std::min(t.tile, rows.count - row),
              .y = rows.y + size_t(row) * rows.y_stride + kernels::kPanelRows * begin,
              .y_stride = rows.y_stride});
  });
}

void ForwardPass::row_product(std::span<const SegmentMatrix> segments, const Operand& x,
                              const Norm* after) {
  // All segments have the same panels (the hidden size); they follow each other in the items.
  const kernels::PackedMatrix& first = segments.front().weights;
  const int panels = first.panels();
  const auto count = static_cast<int>(segments.size());
  Tiling t = tiling(rows_, panels,
                    kernels::matmul_panel_grain(isa_, first.format(), rows_, first.padded_k()),
                    ceil_div(thread_.lanes, count));
  share_out(t.items() * count, [&](int item) {
    const int row = item / (t.groups * count) * t.tile;
    const SegmentMatrix& segment = segments[static_cast<size_t>(item / t.groups % count)];
    const int begin = item % t.groups * t.grain;
    const int rows = std::min(t.tile, rows_ - row);
    const kernels::PackedMatrix& matrix = segment.weights;
    const Operand own = x.at(row, segment.x_column);
    const kernels::MatmulParams params = {
        .weights = &matrix,
        .x = own.x,
        .x_stride = own.stride,
        .rows = rows,
        .y = s_.parts[static_cast<size_t>(segment.segment)].data() +
             size_t(row) * s_.hidden_f32_stride,
        .y_stride = s_.hidden_f32_stride,
        .arithmetic = s_.options.arithmetic,
        .codes = own.codes,
        .codes_stride = own.code_stride()};
    std::byte* scratch = thread_.scratch(
        kMatmulScratch,
        kernels::matmul_scratch_bytes(isa_, matrix.format(), rows, matrix.padded_k()));
    kernels::matmul(isa_, params, begin, std::min(begin + t.grain, panels), scratch);
    if (few_rows_ && after != nullptr && is_last_item(t.items() * count)) {
      norm_rows(*after, 0, rows_);
    }
  });
}

bool ForwardPass::is_last_item(int items) const {
  // Release what was written here, acquire what others wrote. The last one clears: a barrier lies
  // before the next use.
  const auto count = [](int& counter, int all) {
    const std::atomic_ref<int> done(counter);
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < all) {
      return false;
    }
    done.store(0, std::memory_order_relaxed);
    return true;
  };
  return count(*rank_.items_done.data(), items) && count(*s_.ranks_done.data(), thread_.ranks);
}

void ForwardPass::gate_up(const Projection& projection) {
  const RankColumns& columns = weights_.columns;
  const kernels::PackedMatrix& first = projection.parts.front().weights;
  const int panels = panels_of(columns.ffn.count());
  const int grain = kernels::matmul_panel_grain(isa_, first.format(), rows_, first.padded_k());
  const size_t row_bytes = 2 * sizeof(float) * kernels::kPanelRows * static_cast<size_t>(grain);
  const int max_tile = std::max(1, static_cast<int>(kMaxTileBytes / row_bytes / 32 * 32));
  const Tiling t = tiling(rows_, panels, grain, thread_.lanes, std::min(max_tile, kMaxRowTile));
  const int stride = t.grain * kernels::kPanelRows;
  const size_t size = size_t(t.tile) * stride;
  // One thread makes the same columns of gate and up, so their product needs neither a barrier nor
  // memory for both.
  auto* gate = reinterpret_cast<float*>(thread_.scratch(kGateUpScratch, 2 * size * sizeof(float)));
  float* up = gate + size;
  auto* h = reinterpret_cast<uint16_t*>(thread_.scratch(kGatedScratch, size * sizeof(uint16_t)));
  share_out(t.items(), [&](int item) {
    const int row = item / t.groups * t.tile;
    const int begin = item % t.groups * t.grain;
    const int end = std::min(begin + t.grain, panels);
    Rows rows = {.x = normed_rows().at(row, 0),
                 .count = std::min(t.tile, rows_ - row),
                 .y = gate,
                 .y_stride = stride};
    const int gate_panel = columns.gate / kernels::kPanelRows;
    const int up_panel = columns.up / kernels::kPanelRows;
    multiply(projection, gate_panel + begin, gate_panel + end, rows);
    rows.y = up;
    multiply(projection, up_panel + begin, up_panel + end, rows);
    const int column = begin * kernels::kPanelRows;
    const int count = std::min(end * kernels::kPanelRows, columns.ffn.count()) - column;
    kernels::gated(isa_,
                   {.activation = model_.activation,
                    .gate = gate,
                    .up = up,
                    .stride = stride,
                    .h = h,
                    .h_stride = stride,
                    .n = count},
                   0, rows.count);
    for (int i = 0; i < rows.count; ++i) {
      std::memcpy(rank_.ffn.data() + size_t(row + i) * columns.ffn_columns + column,
                  h + size_t(i) * stride, static_cast<size_t>(count) * sizeof(uint16_t));
    }
    // Items begin at whole blocks: their panels come in pairs.
    code(ffn_rows().at(row, column), rows.count, count);
  });
}

void ForwardPass::head() {
  const int count = logits_rows_;
  if (count == 0) {
    return;
  }
  const auto width = static_cast<size_t>(s_.hidden_bf16_stride);
  const auto head_rows = [&] {
    return operand(s_.head_x, s_.hidden_bf16_stride, s_.head_codes, count);
  };
  region(Meet::kTeam, [&] {
    const kernels::ResidualNormParams params =
        norm_params(after_ffn(model_.layers - 1, s_.weights.output_norm()));
    const Operand rows = head_rows();
    share_out_rows(share(count, thread_.rank, thread_.ranks), [&](int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const int row = s_.logits_rows[static_cast<size_t>(i)];
        kernels::residual_norm(isa_, params, row, row + 1);
        std::memcpy(s_.head_x.data() + size_t(i) * width, s_.x.data() + size_t(row) * width,
                    width * sizeof(uint16_t));
        code(rows.at(i, 0), 1, model_.hidden);
      }
    });
  });
  for (int first = 0; first < count; first += s_.max_logits_rows) {
    if (first > 0) {
      region(Meet::kTeam, [] {});  // nobody reads the rows before any more
    }
    region(Meet::kTeam, [&] {
      const LogitsChunk chunk = logits_chunk(first);
      column_product(weights_.head, {.x = head_rows().at(first, 0),
                                     .count = chunk.rows,
                                     .y = chunk.logits + weights_.columns.vocab.begin,
                                     .y_stride = chunk.stride});
    });
    if (hooks_.logits && !thread_.guest) {
      hooks_.logits(thread_, logits_chunk(first));
    }
  }
}

LogitsChunk ForwardPass::logits_chunk(int first) const {
  return {.first = first,
          .rows = std::min(s_.max_logits_rows, logits_rows_ - first),
          .logits = s_.logits.data(),
          .stride = s_.logits_stride};
}

}  // namespace baton::model
