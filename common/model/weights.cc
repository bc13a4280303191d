#include "common/model/weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/model/architectures.h"
#include "common/model/source_type.h"

namespace baton::model {
namespace {

using kernels::kBlockK;
using kernels::kPanelRows;
using kernels::PackedMatrix;
using kernels::WeightFormat;
using model_file::TensorInfo;

int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

// Rows of a tensor that a rank holds.
struct RowSlice {
  const TensorInfo* tensor;
  int begin;
  int count;
};

// Packing of up to kRowsPerJob rows; destination rows of different jobs lie in different panels.
struct PackJob {
  size_t matrix;  // index in the layout
  int first_row;
  const TensorInfo* tensor;
  int source_row;
  int count;
  int k_begin;
};
constexpr int kRowsPerJob = 16 * kPanelRows;

void run_job(const PackJob& job, PackedMatrix& matrix) {
  std::vector<const std::byte*> rows(static_cast<size_t>(job.count));
  for (int i = 0; i < job.count; ++i) {
    rows[static_cast<size_t>(i)] =
        job.tensor->row(static_cast<uint64_t>(job.source_row + i)).data();
  }
  kernels::pack_rows(matrix, job.first_row, source_type(job.tensor->type), rows,
                     static_cast<int>(job.tensor->row_elements()), job.k_begin);
}

RankColumns columns_of(const ModelDescription& d, const SegmentPlan& plan, int rank) {
  RankColumns c;
  c.query_heads = plan.rank_query_heads(rank);
  c.kv_heads = plan.rank_kv_heads(rank);
  c.ffn = plan.rank_ffn_columns(rank);
  c.vocab = plan.rank_vocab_rows(rank);
  c.k = round_up(c.query_heads.count() * d.head_dim, kPanelRows);
  c.v = c.k + round_up(c.kv_heads.count() * d.head_dim, kPanelRows);
  c.up = round_up(c.ffn.count(), kPanelRows);
  c.ffn_columns = round_up(c.ffn.count(), kBlockK);
  const Range segments = plan.rank_segments(rank);
  for (int s = segments.begin; s < segments.end; ++s) {
    const int heads = plan.query_heads(s).count();
    for (int i = 0; i < heads; ++i) {
      c.attention_head.push_back(c.attention_columns + i * d.head_dim);
    }
    c.attention_columns += round_up(heads * d.head_dim, kBlockK);
  }
  return c;
}

}  // namespace

WeightPool prompt_pool(device::Isa isa, kernels::Arithmetic arithmetic) {
  constexpr int kManyRows = 512;
  const bool blocks_are_quick =
      kernels::matmul_takes_codes(isa, arithmetic, kernels::WeightFormat::kQ8, kManyRows);
  return blocks_are_quick ? WeightPool::kDecode : WeightPool::kPrefill;
}

std::string packed_variant(WeightPool pool, const SegmentPlan& plan) {
  return std::string(pool == WeightPool::kPrefill ? "prefill" : "decode") + "-t" +
         std::to_string(plan.ranks()) + "s" + std::to_string(plan.segments());
}

const ProjectionPart& Projection::part_of(int panel) const {
  BATON_CHECK(panel >= 0 && panel < panels, "panel outside the projection");
  size_t index = parts.size() - 1;
  while (parts[index].first_panel > panel) {
    --index;
  }
  return parts[index];
}

// Notes the shape of every matrix first and what is packed where, then has packed_store.h find or
// make the bytes of all of them.
class WeightLoader final : public WeightPacker {
 public:
  WeightLoader(Weights& weights, const Architecture& architecture, WeightPool pool)
      : w_(weights), d_(weights.description_), architecture_(architecture), pool_(pool) {}

  Status run(const ParallelFor& parallel_for, const KeptWeights& kept) {
    BATON_ASSIGN_OR_RETURN(w_.embedding_, tensor(TensorRole::kTokenEmbedding, 0));
    load_vectors();
    w_.ranks_.resize(static_cast<size_t>(w_.plan_.ranks()));
    for (int rank = 0; rank < w_.plan_.ranks(); ++rank) {
      BATON_RETURN_IF_ERROR(plan_rank(rank));
    }
    BATON_ASSIGN_OR_RETURN(w_.packed_, load_packed(w_.file_, packed_variant(pool_, w_.plan_),
                                                   matrices_, *this, kept, parallel_for));
    fill_ropes();
    return {};
  }

  // Jobs are in the order of their matrices.
  void pack(size_t first, size_t last, const ParallelFor& parallel_for) override {
    const auto begin = std::ranges::lower_bound(jobs_, first, {}, &PackJob::matrix);
    const auto end = std::ranges::lower_bound(jobs_, last, {}, &PackJob::matrix);
    parallel_for(static_cast<int>(end - begin),
                 [&](int i) { run_job(begin[i], *matrices_[begin[i].matrix]); });
  }

 private:
  Result<const TensorInfo*> tensor(TensorRole role, int layer) const {
    return w_.file_.get_tensor(tensor_name(tensor_rule(architecture_, role), layer));
  }

  void load_vectors() {
    w_.vectors_.resize(static_cast<size_t>(d_.layers));
    for (int layer = 0; layer < d_.layers; ++layer) {
      LayerVectors& v = w_.vectors_[static_cast<size_t>(layer)];
      load_vector(TensorRole::kAttnNorm, layer, v.attn_norm);
      load_vector(TensorRole::kAttnQBias, layer, v.q_bias);
      load_vector(TensorRole::kAttnKBias, layer, v.k_bias);
      load_vector(TensorRole::kAttnVBias, layer, v.v_bias);
      load_vector(TensorRole::kAttnQNorm, layer, v.q_norm);
      load_vector(TensorRole::kAttnKNorm, layer, v.k_norm);
      load_vector(TensorRole::kAttnPostNorm, layer, v.attn_post_norm);
      load_vector(TensorRole::kFfnNorm, layer, v.ffn_norm);
      load_vector(TensorRole::kFfnPostNorm, layer, v.ffn_post_norm);
    }
    load_vector(TensorRole::kOutputNorm, 0, w_.output_norm_);
  }

  // describe() has checked that what the architecture needs is there.
  void load_vector(TensorRole role, int layer, std::vector<float>& out) {
    if (!architecture_.has(role)) {
      return;
    }
    const TensorInfo* source =
        w_.file_.find_tensor(tensor_name(tensor_rule(architecture_, role), layer));
    if (source == nullptr) {
      return;
    }
    out.resize(source->row_elements());
    kernels::dequantize_row(source_type(source->type), source->data.data(),
                            static_cast<int>(out.size()), out.data());
    vector_bytes_ += out.size() * sizeof(float);
  }

  Status plan_rank(int rank) {
    RankWeights& r = w_.ranks_[static_cast<size_t>(rank)];
    r.columns = columns_of(d_, w_.plan_, rank);
    r.bytes = vector_bytes_;
    r.replicated_bytes = vector_bytes_;
    // Matrices are noted by address: the vector must not grow under them.
    r.layers.resize(static_cast<size_t>(d_.layers));
    for (int layer = 0; layer < d_.layers; ++layer) {
      BATON_RETURN_IF_ERROR(plan_layer(rank, layer));
    }
    const TensorInfo* head = w_.embedding_;
    if (!d_.tied) {
      BATON_ASSIGN_OR_RETURN(head, tensor(TensorRole::kOutput, 0));
    }
    plan_projection(r, r.head, {{head, r.columns.vocab.begin, r.columns.vocab.count()}},
                    WeightPool::kDecode);
    return {};
  }

  Status plan_layer(int rank, int layer) {
    RankWeights& r = w_.ranks_[static_cast<size_t>(rank)];
    LayerWeights& l = r.layers[static_cast<size_t>(layer)];
    const RankColumns& c = r.columns;
    BATON_ASSIGN_OR_RETURN(const TensorInfo* q, tensor(TensorRole::kAttnQ, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* k, tensor(TensorRole::kAttnK, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* v, tensor(TensorRole::kAttnV, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* o, tensor(TensorRole::kAttnOutput, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* gate, tensor(TensorRole::kFfnGate, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* up, tensor(TensorRole::kFfnUp, layer));
    BATON_ASSIGN_OR_RETURN(const TensorInfo* down, tensor(TensorRole::kFfnDown, layer));
    const int kv_begin = c.kv_heads.begin * d_.head_dim;
    const int kv_count = c.kv_heads.count() * d_.head_dim;
    plan_projection(r, l.qkv,
                    {{q, c.query_heads.begin * d_.head_dim, c.query_heads.count() * d_.head_dim},
                     {k, kv_begin, kv_count},
                     {v, kv_begin, kv_count}},
                    pool_);
    r.replicated_bytes += shared_kv_bytes(rank, l.qkv);
    plan_projection(r, l.gate_up,
                    {{gate, c.ffn.begin, c.ffn.count()}, {up, c.ffn.begin, c.ffn.count()}}, pool_);
    plan_segments(rank, layer, *o, *down);
    return {};
  }

  WeightFormat format_for(const TensorInfo& source, WeightPool pool) const {
    return pool == WeightPool::kPrefill ? WeightFormat::kBf16Panels
                                        : kernels::decode_format(source_type(source.type));
  }

  // Slices of one format become one matrix; each starts on a panel of its own.
  void plan_projection(RankWeights& rank, Projection& out, const std::vector<RowSlice>& slices,
                       WeightPool pool) {
    out.k = static_cast<int>(slices.front().tensor->row_elements());
    for (size_t first = 0; first < slices.size();) {
      const WeightFormat format = format_for(*slices[first].tensor, pool);
      size_t last = first;
      std::vector<int> starts;
      int rows = 0;
      for (; last < slices.size() && format_for(*slices[last].tensor, pool) == format; ++last) {
        starts.push_back(round_up(rows, kPanelRows));
        rows = starts.back() + slices[last].count;
      }
      out.parts.push_back({PackedMatrix::unplaced(format, rows, out.k), out.columns, out.panels});
      rank.bytes += out.parts.back().weights.bytes();
      out.panels += out.parts.back().weights.panels();
      out.columns += out.parts.back().weights.panels() * kPanelRows;
      pending_.push_back({out.parts.size() - 1, first, std::move(starts)});
      first = last;
    }
    // Addresses are noted when no part moves any more.
    for (const Pending& p : pending_) {
      matrices_.push_back(&out.parts[p.part].weights);
      for (size_t i = 0; i < p.starts.size(); ++i) {
        const RowSlice& slice = slices[p.first_slice + i];
        add_jobs(p.starts[i], *slice.tensor, slice.begin, slice.count, 0);
      }
    }
    pending_.clear();
  }

  void plan_segments(int rank, int layer, const TensorInfo& o, const TensorInfo& down) {
    RankWeights& r = w_.ranks_[static_cast<size_t>(rank)];
    LayerWeights& l = r.layers[static_cast<size_t>(layer)];
    const Range own = w_.plan_.rank_segments(rank);
    l.attn_output.reserve(static_cast<size_t>(own.count()));
    l.ffn_down.reserve(static_cast<size_t>(own.count()));
    int attention_column = 0;
    for (int s = own.begin; s < own.end; ++s) {
      const Range heads = w_.plan_.query_heads(s);
      const Range k = {heads.begin * d_.head_dim, heads.end * d_.head_dim};
      plan_segment(r, l.attn_output, o, k, s, attention_column);
      attention_column += round_up(k.count(), kBlockK);
      const Range ffn = w_.plan_.ffn_columns(s);
      plan_segment(r, l.ffn_down, down, ffn, s, ffn.begin - r.columns.ffn.begin);
    }
  }

  void plan_segment(RankWeights& rank, std::vector<SegmentMatrix>& out, const TensorInfo& source,
                    Range k, int segment, int x_column) {
    if (k.empty()) {
      return;
    }
    WeightFormat format = format_for(source, pool_);
    // Packed blocks start where the segment does. Where that cuts a block of the file (heads of 16
    // elements) only bf16 can say the same values.
    if (k.begin % kBlockK != 0) {
      format = WeightFormat::kBf16Panels;
    }
    out.push_back({PackedMatrix::unplaced(format, d_.hidden, k.count()), segment, x_column});
    rank.bytes += out.back().weights.bytes();
    matrices_.push_back(&out.back().weights);
    add_jobs(0, source, 0, d_.hidden, k.begin);
  }

  // Of the matrix noted last.
  void add_jobs(int first_row, const TensorInfo& source, int source_row, int count, int k_begin) {
    for (int done = 0; done < count; done += kRowsPerJob) {
      jobs_.push_back({matrices_.size() - 1, first_row + done, &source, source_row + done,
                       std::min(kRowsPerJob, count - done), k_begin});
    }
  }

  // Bytes of the K and V rows whose KV head another rank holds as well.
  size_t shared_kv_bytes(int rank, const Projection& qkv) const {
    const RankColumns& c = w_.ranks_[static_cast<size_t>(rank)].columns;
    int shared = 0;
    for (int head = c.kv_heads.begin; head < c.kv_heads.end; ++head) {
      shared += holders(head) > 1 ? 1 : 0;
    }
    size_t bytes = 0;
    for (const int column : {c.k, c.v}) {
      const ProjectionPart& part = qkv.part_of(column / kPanelRows);
      bytes += part.weights.panel_bytes() / kPanelRows * static_cast<size_t>(shared * d_.head_dim);
    }
    return bytes;
  }

  int holders(int kv_head) const {
    int count = 0;
    for (int rank = 0; rank < w_.plan_.ranks(); ++rank) {
      const auto range = w_.plan_.rank_kv_heads(rank);
      count += range.begin <= kv_head && kv_head < range.end ? 1 : 0;
    }
    return count;
  }

  void fill_ropes() {
    for (const RopeDescription& rope : d_.ropes) {
      w_.ropes_.push_back(table_of(rope));
    }
  }

  Weights::RopeValues table_of(const RopeDescription& rope) const {
    const std::vector<double> frequencies = rope_frequencies(rope);
    const double magnitude = rope.magnitude;
    Weights::RopeValues table;
    table.cos.reserve(static_cast<size_t>(d_.max_context) * frequencies.size());
    table.sin.reserve(table.cos.capacity());
    for (int position = 0; position < d_.max_context; ++position) {
      for (const double f : frequencies) {
        table.cos.push_back(static_cast<float>(magnitude * std::cos(position * f)));
        table.sin.push_back(static_cast<float>(magnitude * std::sin(position * f)));
      }
    }
    return table;
  }

  struct Pending {
    size_t part;
    size_t first_slice;
    std::vector<int> starts;  // rows in the part, one per slice
  };

  Weights& w_;
  const ModelDescription& d_;
  const Architecture& architecture_;
  WeightPool pool_;
  size_t vector_bytes_ = 0;
  std::vector<PackedMatrix*> matrices_;
  std::vector<PackJob> jobs_;
  std::vector<Pending> pending_;
};

Result<std::unique_ptr<Weights>> Weights::load(model_file::ModelFile file,
                                               const ModelDescription& description,
                                               const SegmentPlan& plan, WeightPool pool,
                                               const ParallelFor& parallel_for,
                                               const KeptWeights& kept) {
  const Architecture* architecture = find_architecture(description.architecture);
  BATON_CHECK(architecture != nullptr, "a description comes from describe()");
  std::unique_ptr<Weights> weights(new Weights(std::move(file), description, plan));
  BATON_RETURN_IF_ERROR(WeightLoader(*weights, *architecture, pool).run(parallel_for, kept));
  weights->file_.release_pages();
  return weights;
}

void Weights::embed(TokenId token, float* out) const {
  BATON_CHECK(token >= 0 && token < description_.vocab, "token outside the vocabulary");
  const auto row = embedding_->row(static_cast<uint64_t>(token));
  kernels::dequantize_row(source_type(embedding_->type), row.data(), description_.hidden, out);
  for (int i = 0; i < description_.hidden; ++i) {
    out[i] =
        kernels::float_from_bf16(kernels::bf16_from_float(out[i])) * description_.embedding_scale;
  }
}

kernels::RopeTable Weights::rope(int layer) const {
  const RopeValues& table = ropes_[static_cast<size_t>(description_.rope_index(layer))];
  const RopeDescription& rope = description_.rope(layer);
  return {table.cos.data(), table.sin.data(), rope.dims, rope.interleaved};
}

}  // namespace baton::model
