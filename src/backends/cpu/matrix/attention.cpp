// Tiled kernels for scaled_dot_product_attention and its gradient: which operands the kernels support, and how the work
// is divided among threads.
//
// For the attention itself, threads process blocks of queries. For its gradient, they process blocks of keys, each with
// all queries of the heads that share those keys. With few heads, the keys are split into parts; each part accumulates
// its own query gradient, and these are summed at the end. The split depends only on sizes, so repeated runs give
// bitwise identical results.
//
// Half precision is converted to float32, except for bfloat16 on processors with bfloat16 dot products. Cases that the
// kernels do not support are composed of matmuls and a softmax (core/ops/matrix_attention.cpp).
#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/attention_tiles.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/random/philox.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {

const AttentionTiles* attention_tiles_of_bfloat16() {
#if defined(__x86_64__)
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16");
  if (there) return &avx512_bf16::attention_tiles;
#endif
  return nullptr;
}

namespace {

constexpr size_t behind_sources = 3;  // number of inputs after the sources: incoming gradient, result, statistics
constexpr int64_t enough_items = 32;  // minimum work items of the gradient; with fewer, the keys are split
// maximum number of elements of a query or value row; with longer rows, the tiled kernels are not used, because tiles
// do not fit in cache
constexpr int64_t longest_row = 512;
constexpr int64_t fewest_queries = 16;

bool is_gradient(const Operation& operation) { return operation.is("scaled_dot_product_attention_gradient"); }

size_t count_of_sources(const Operation& operation) {
  return operation.inputs.size() - (is_gradient(operation) ? behind_sources : 0) -
         (operation.attributes.real("dropout") > 0 ? 1 : 0);
}

// Return all axes of a shape except the last two, preceded by as many axes of size 1 as it takes to get `rank` axes.
Dims leading_axes(const Dims& dims, size_t rank) {
  Dims result(rank, 1);
  const size_t own = dims.size() > 2 ? dims.size() - 2 : 0;
  std::copy_n(dims.begin(), own, result.end() - static_cast<std::ptrdiff_t>(own));
  return result;
}

// Return, for each batch, the index of the operand's matrix that broadcasting assigns to this batch.
std::vector<int64_t> matrices_of(const Dims& operand, const Dims& batches) {
  std::vector<int64_t> found(static_cast<size_t>(element_count(batches)), 0);
  const Dims own = leading_axes(operand, batches.size());
  for (size_t i = 0; i < found.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (int64_t axis = static_cast<int64_t>(batches.size()) - 1, stride = 1; axis >= 0; --axis) {
      if (own[axis] != 1) found[i] += rest % batches[axis] * stride;
      rest /= batches[axis];
      stride *= own[axis];
    }
  }
  return found;
}

// Sizes of an attention operation, and the shape of its batches, which are all heads of all samples.
struct Geometry {
  explicit Geometry(const Operation& operation) {
    const auto dims = [&](size_t i) -> const Dims& { return operation.input(i)->shape().dims(); };
    const Attributes& a = operation.attributes;
    const size_t sources = count_of_sources(operation);
    size_t rank = 0;
    for (size_t i = 0; i < sources; ++i) rank = std::max(rank, dims(i).size() > 2 ? dims(i).size() - 2 : 0);
    query = leading_axes(dims(0), rank);
    key = leading_axes(dims(1), rank);
    value = leading_axes(dims(2), rank);
    batches.assign(rank, 1);
    for (size_t i = 0; i < sources; ++i) {
      const Dims own = leading_axes(dims(i), rank);
      for (size_t axis = 0; axis < rank; ++axis)
        if (own[axis] != 1) batches[axis] = own[axis];
    }
    sizes.queries = dims(0)[dims(0).size() - 2];
    sizes.features = dims(0).back();
    sizes.keys = dims(1)[dims(1).size() - 2];
    sizes.values = dims(2).back();
    sizes.scale = static_cast<float>(a.real("scale"));
    sizes.causal = a.boolean("causal");
    sizes.drops = a.real("dropout") > 0;
    if (sources < 4) return;
    const Dims& mask = dims(3);
    const int64_t columns = mask.empty() ? 1 : mask.back(), rows = mask.size() < 2 ? 1 : mask[mask.size() - 2];
    sizes.mask_column = columns == 1 ? 0 : 1;
    sizes.mask_row = rows == 1 ? 0 : columns;
    mask_elements = rows * columns;
  }
  int64_t count() const { return element_count(batches); }

  AttentionSizes sizes;
  Dims query, key, value, batches;  // all axes except the last two
  int64_t mask_elements = 0;  // elements of one mask matrix
};

// Return whether the tiled kernel supports this attention and is at least as fast as two matmuls with a softmax between
// them.
//
// Each batch must have its own queries. Batches that share keys must also share values, and vice versa. With few
// queries, the matmuls read the keys without packing and are faster. With few scores, the matmuls suffice, because the
// score matrix fits in cache even if it is stored as a whole. The minimum number of scores is also defined as IN_TILES
// in python/mpsgraph/torch/aten/attention.py.
bool suits_tiles(const Operation& operation) {
  const DType dtype = operation.input(0)->dtype();
  if (dtype != DType::float32 && size_of(dtype) != 2) return false;
  if (is_gradient(operation) && operation.attributes.boolean("mask_gradient")) return false;
  const Geometry g(operation);
  const AttentionSizes& s = g.sizes;
  constexpr int64_t least = 64 * 64;
  return g.query == g.batches && g.key == g.value && g.count() > 0 && s.features > 0 && s.values > 0 &&
         s.features <= longest_row && s.values <= longest_row && s.queries >= fewest_queries &&
         s.keys * s.queries >= least;
}

// ---- dropout ----

struct Draw {
  Philox philox;
  int64_t keys;
  float rate, raised;

  // Compute the dropout factors of one row of scores. Score number i, counted row by row, uses the same random number
  // as element i of a random() result; each Philox block contains four of them.
  static void run(const void* state, int64_t row, int64_t first_key, int64_t count, float* factors) {
    const Draw& draw = *static_cast<const Draw*>(state);
    constexpr int64_t chunk = 32;
    uint32_t words[4 * chunk];
    const int64_t begin = row * draw.keys + first_key, end = begin + count;
    for (int64_t block = begin / 4; 4 * block < end; block += chunk) {
      const int64_t some = std::min(chunk, (end + 3) / 4 - block);
      draw.philox.skipped(static_cast<uint64_t>(block)).generate(words, some);
      const int64_t from = std::max(begin, 4 * block), to = std::min(end, 4 * (block + some));
      const uint32_t* word = words + (from - 4 * block);
      for (int64_t i = 0; i < to - from; ++i)
        factors[from - begin + i] = uniform_float(word[i]) >= draw.rate ? draw.raised : 0.f;
    }
  }
};

// ---- kernels ----

struct Slots {
  Slots(Lowering& lowering, size_t sources) {
    const auto slot = [&](size_t i) { return lowering.input(i).slot; };
    query = slot(0);
    key = slot(1);
    value = slot(2);
    if (sources == 4) mask = slot(3);
    if (lowering.attributes().real("dropout") > 0) state = slot(sources);
  }
  Slot query, key, value, mask = -1, state = -1;
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(Lowering& lowering, const AttentionTiles& tiles, bool gradient)
      : tiles_(tiles),
        geometry_(lowering.operation()),
        slots_(lowering, count_of_sources(lowering.operation())),
        rate_(static_cast<float>(lowering.attributes().real("dropout"))),
        raised_(1.f / static_cast<float>(1 - lowering.attributes().real("dropout"))) {
    const auto dims = [&](size_t i) -> const Dims& { return lowering.operation().input(i)->shape().dims(); };
    key_of_ = matrices_of(dims(1), geometry_.batches);
    if (slots_.mask >= 0) mask_of_ = matrices_of(dims(3), geometry_.batches);
    const AttentionSizes& s = geometry_.sizes;
    if (slots_.mask >= 0 && lowering.input(3).dtype != DType::float32) {
      const Operand mask = lowering.input(3);
      widen_ = cast_function(mask.dtype, DType::float32);
      masks_ = mask.elements();
      widened_mask_ = lowering.scratch(static_cast<size_t>(masks_) * sizeof(float));
    }
    own_ = padded(gradient ? tiles_.backward_scratch(s) : tiles_.forward_scratch(s), 64);
    scratch_ = lowering.scratch(static_cast<size_t>(own_ * thread_count()) * sizeof(float));
  }
  std::string description() const override {
    const AttentionSizes& s = geometry_.sizes;
    return cat("attention of ", geometry_.count(), " x ", s.queries, " queries to ", s.keys, " keys in tiles of ",
               tiles_.forward_rows, " x ", tiles_.forward_keys, s.causal ? ", causal" : "",
               slots_.mask >= 0 ? ", masked" : "", s.drops ? ", dropout" : "");
  }

 protected:
  const AttentionSizes& sizes() const { return geometry_.sizes; }
  float* scratch(const Frame& f, int64_t member) const { return f.at<float>(scratch_) + member * own_; }

  // Return row `row` of an operand whose rows have `length` elements.
  const std::byte* row(const Frame& f, Slot slot, int64_t row, int64_t length) const {
    return f.at<const std::byte>(slot) + row * length * tiles_.element_size;
  }
  std::byte* own_row(const Frame& f, Slot slot, int64_t row, int64_t length) const {
    return f.at<std::byte>(slot) + row * length * tiles_.element_size;
  }
  const std::byte* key(const Frame& f, int64_t matrix) const {
    return row(f, slots_.key, matrix * sizes().keys, sizes().features);
  }
  // Convert the mask to float32 once per run, before any batch is processed.
  void prepare(const Frame& f) const {
    if (!widen_) return;
    const std::byte* mask = f.at<const std::byte>(slots_.mask);
    parallel_for(masks_, 32768, [&](int64_t begin, int64_t end) {
      const void* from = mask + begin * tiles_.element_size;
      widen_(f.at<float>(widened_mask_) + begin, &from, end - begin);
    });
  }
  // Return the operands of one batch.
  AttentionMatrices matrices(const Frame& f, int64_t batch) const {
    const AttentionSizes& s = sizes();
    const auto at = static_cast<size_t>(batch);
    AttentionMatrices m;
    m.query = row(f, slots_.query, batch * s.queries, s.features);
    m.key = key(f, key_of_[at]);
    m.value = row(f, slots_.value, key_of_[at] * s.keys, s.values);
    if (slots_.mask >= 0)
      m.mask = f.at<float>(widen_ ? widened_mask_ : slots_.mask) + mask_of_[at] * geometry_.mask_elements;
    m.first_row = batch * s.queries;
    return m;
  }
  Draw draw(const Frame& f) const {
    if (slots_.state < 0) return {Philox(0, 0, 0), 0, 0, 1};
    return {Philox(f.at<int32_t>(slots_.state)), sizes().keys, rate_, raised_};
  }

  const AttentionTiles& tiles_;
  const Geometry geometry_;
  std::vector<int64_t> key_of_, mask_of_;

 private:
  const Slots slots_;
  const float rate_, raised_;
  TileFunction widen_ = nullptr;  // converts a mask that is not float32
  int64_t masks_ = 0, own_;  // elements of the mask; scratch floats per thread
  Slot widened_mask_ = -1, scratch_;
};

class ForwardKernel final : public AttentionKernel {
 public:
  ForwardKernel(Lowering& lowering, const AttentionTiles& tiles)
      : AttentionKernel(lowering, tiles, false), result_(lowering.output().slot) {
    if (lowering.operation().outputs.size() > 1) statistics_ = lowering.output(1).slot;
    key_tiles_ = (sizes().keys + tiles_.forward_keys - 1) / tiles_.forward_keys;
    matrix_ = key_tiles_ * tiles_.forward_keys * sizes().features / tiles_.elements_per_factor;
    packed_ = lowering.scratch(static_cast<size_t>(element_count(geometry_.key) * matrix_) * sizeof(float));
  }
  void run(Frame& f) const override {
    const AttentionSizes& s = sizes();
    const Draw drawn = draw(f);
    prepare(f);
    const int64_t blocks = (s.queries + tiles_.forward_rows - 1) / tiles_.forward_rows;
    float* packed = f.at<float>(packed_);
    parallel_for(element_count(geometry_.key) * key_tiles_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t matrix = i / key_tiles_;
        tiles_.pack_keys(s, key(f, matrix), i % key_tiles_, packed + matrix * matrix_);
      }
    });
    parallel_items(geometry_.count() * blocks, [&](int64_t item, int64_t member) {
      // start with the last block, which sees the most keys under a causal mask and therefore takes longest
      const int64_t batch = item / blocks, block = blocks - 1 - item % blocks;
      AttentionMatrices m = matrices(f, batch);
      m.packed_keys = packed + key_of_[static_cast<size_t>(batch)] * matrix_;
      m.result = own_row(f, result_, batch * s.queries, s.values);
      if (statistics_ >= 0) m.statistics = f.at<float>(statistics_) + 2 * batch * s.queries;
      const int64_t first = block * tiles_.forward_rows;
      tiles_.forward(s, m, {Draw::run, &drawn}, first, std::min(tiles_.forward_rows, s.queries - first),
                     scratch(f, member));
    });
  }

 private:
  int64_t key_tiles_, matrix_;  // key tiles per matrix; floats per packed key matrix
  Slot result_, packed_, statistics_ = -1;
};

class BackwardKernel final : public AttentionKernel {
 public:
  BackwardKernel(Lowering& lowering, const AttentionTiles& tiles) : AttentionKernel(lowering, tiles, true) {
    const AttentionSizes& s = sizes();
    const size_t behind = lowering.input_count() - behind_sources;
    incoming_ = lowering.input(behind).slot;
    result_ = lowering.input(behind + 1).slot;
    statistics_ = lowering.input(behind + 2).slot;
    for (size_t i = 0; i < 3; ++i) gradients_[i] = lowering.output(i).slot;
    // Sort the batches so that those with the same keys are adjacent.
    const int64_t count = geometry_.count();
    for (int64_t i = 0; i < count; ++i) batches_.push_back(i);
    std::ranges::stable_sort(batches_, {}, [&](int64_t i) { return key_of_[static_cast<size_t>(i)]; });
    groups_ = element_count(geometry_.key);
    shared_by_ = count / groups_;
    const int64_t blocks = (s.keys + tiles_.backward_keys - 1) / tiles_.backward_keys;
    parts_ = std::clamp<int64_t>(groups_ >= enough_items / 4 ? 1 : enough_items / groups_, 1, blocks);
    blocks_of_part_ = (blocks + parts_ - 1) / parts_;
    width_ = padded(s.features, tiles_.lanes);
    direct_ = parts_ == 1 && width_ == s.features && tiles_.element_size == sizeof(float);
    const auto floats = [&](int64_t n) { return lowering.scratch(static_cast<size_t>(n) * sizeof(float)); };
    delta_ = floats(count * s.queries);
    sharing_ = lowering.scratch(static_cast<size_t>(thread_count() * shared_by_) * sizeof(AttentionMatrices));
    if (!direct_) sums_ = floats(parts_ * count * s.queries * width_);
  }

  void run(Frame& f) const override {
    const AttentionSizes& s = sizes();
    const int64_t rows = geometry_.count() * s.queries, all = rows * width_;
    float* delta = f.at<float>(delta_);
    float* sums = f.at<float>(direct_ ? gradients_[0] : sums_);
    parallel_for(rows, grain_for(s.values), [&](int64_t begin, int64_t end) {
      tiles_.dots(row(f, incoming_, begin, s.values), row(f, result_, begin, s.values), end - begin, s.values,
                  delta + begin);
    });
    const Draw drawn = draw(f);
    prepare(f);
    parallel_items(groups_ * parts_, [&](int64_t item, int64_t member) {
      const int64_t group = item / parts_, part = item % parts_;
      const int64_t first = std::min(s.keys, part * blocks_of_part_ * tiles_.backward_keys),
                    last = std::min(s.keys, (part + 1) * blocks_of_part_ * tiles_.backward_keys);
      AttentionMatrices* sharing = f.at<AttentionMatrices>(sharing_) + member * shared_by_;
      for (int64_t i = 0; i < shared_by_; ++i) {
        const int64_t batch = batches_[static_cast<size_t>(group * shared_by_ + i)];
        AttentionMatrices& m = *std::construct_at(sharing + i, matrices(f, batch));
        m.incoming = row(f, incoming_, batch * s.queries, s.values);
        m.known_statistics = f.at<float>(statistics_) + 2 * batch * s.queries;
        m.delta = delta + batch * s.queries;
        m.query_gradient = sums + part * all + batch * s.queries * width_;
        std::fill_n(m.query_gradient, s.queries * width_, 0.f);
      }
      tiles_.backward(s, sharing, shared_by_, {Draw::run, &drawn}, first, last,
                      own_row(f, gradients_[1], group * s.keys, s.features),
                      own_row(f, gradients_[2], group * s.keys, s.values), scratch(f, member));
    });
    if (direct_) return;
    parallel_for(rows, grain_for(4 * s.features * (parts_ + 1)), [&](int64_t begin, int64_t end) {
      tiles_.add_parts(sums + begin * width_, parts_, all, width_, end - begin, s.features,
                       own_row(f, gradients_[0], begin, s.features));
    });
  }

 private:
  std::vector<int64_t> batches_;
  int64_t groups_, shared_by_, parts_, blocks_of_part_, width_;
  bool direct_;  // whether the query gradient is accumulated directly in the output
  Slot incoming_, result_, statistics_, gradients_[3], delta_, sharing_, sums_ = -1;
};

template <class OneKernel>
std::unique_ptr<Kernel> lower_attention(Lowering& lowering) {
  const DType dtype = lowering.input(0).dtype;
  if (dtype == DType::float32) return std::make_unique<OneKernel>(lowering, attention_tiles());
  const AttentionTiles* tiles = dtype == DType::bfloat16 ? attention_tiles_of_bfloat16() : nullptr;
  const AttentionSizes sizes = Geometry(lowering.operation()).sizes;
  if (tiles && sizes.features % tiles->elements_per_factor == 0 && sizes.values % tiles->elements_per_factor == 0)
    return std::make_unique<OneKernel>(lowering, *tiles);
  return widened_kernel(lowering, dtype, DType::float32, lower_attention<OneKernel>);
}

}  // namespace

const Kernels attention_kernels("attention", [] {
  define_composite("scaled_dot_product_attention", lower_attention<ForwardKernel>, suits_tiles);
  define_composite("scaled_dot_product_attention_gradient", lower_attention<BackwardKernel>, suits_tiles);
});

}  // namespace mpsgraph::cpu
