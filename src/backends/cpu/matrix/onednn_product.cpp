// oneDNN matmul in blocks. Each block is a single-threaded primitive, and each thread of our pool takes the next block
// whenever it is free. With oneDNN's own thread pool, every parallel region would wait for all threads of the pool,
// even descheduled ones (decision 0030).
#include "backends/cpu/matrix/onednn_product.h"

#include <array>
#include <tuple>

#include "backends/cpu/onednn_kernel.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

using dnnl::memory;
using Description = dnnl::matmul::primitive_desc;

// minimum multiply-adds per block: about 10 microseconds, ten times the cost of a call
constexpr int64_t least_products = 1 << 19;
// multiply-adds per block if there are more blocks than threads, because each block packs its operands
constexpr int64_t usual_products = 1 << 23;
constexpr int64_t blocks_per_thread = 4;
constexpr int64_t enough_rows = 64;  // minimum rows of a block that packs the entire right operand
constexpr int64_t row_unit = 8, column_unit = 64;

// Minimum block size for oneDNN's tiles and packing. `smallest_block` is used instead when some threads would otherwise
// have no work.
struct LeastBlock {
  int64_t rows, columns;
};
constexpr LeastBlock least_block{48, 128}, smallest_block{24, 64};

// oneDNN packs both float32 operands if the block is large enough. Otherwise, it reads the operands in place, which
// makes large matmuls take up to twice as long, and longer still if strides are powers of two. Without AVX-512, this
// affects all large matmuls; with AVX-512, only those with a transposed left operand.
bool needs_packing(bool transposed) { return transposed || !onednn_multiplies_bfloat16(); }
bool packs(int64_t rows, int64_t columns) {
  const double most = onednn_multiplies_bfloat16() ? 0.00196 : 0.0038;
  return 1.0 / static_cast<double>(rows) + 1.0 / static_cast<double>(columns) < most;
}

// A matrix with leading batch axes, `rank` dimensions in all. If it is used transposed, the last two dimensions and
// strides are already swapped.
struct OnednnMatrix {
  memory::dims dims, strides;
  bool transposed;

  OnednnMatrix(const Dims& given, size_t rank, bool transposed) : dims(rank - given.size(), 1), transposed(transposed) {
    dims.insert(dims.end(), given.begin(), given.end());
    strides = contiguous_strides(dims);
    if (!transposed) return;
    std::swap(dims[rank - 1], dims[rank - 2]);
    std::swap(strides[rank - 1], strides[rank - 2]);
  }
};

// One axis of the result, divided into pieces of equal size and a remainder.
struct Cut {
  size_t axis = 0;
  int64_t size = 1, piece = 1;

  Cut(size_t axis, int64_t size, int64_t pieces, int64_t unit) : axis(axis), size(size) {
    piece = std::min(size, ((size + pieces - 1) / pieces + unit - 1) / unit * unit);
  }
  int64_t count() const { return (size + piece - 1) / piece; }
  int64_t begin(int64_t i) const { return i * piece; }
  int64_t length(int64_t i) const { return std::min(piece, size - begin(i)); }
};

// Return the maximum number of blocks for a matmul with this many multiply-adds.
int64_t most_blocks(int64_t products) {
  const int64_t threads = thread_count();
  if (threads == 1) return 1;
  const int64_t least = std::clamp<int64_t>(products / least_products, 1, threads);
  return std::clamp(products / usual_products, least, threads * blocks_per_thread);
}

// Relative cost per element of reading operands again: `row` for rows of the left operand, `column` for columns of the
// right operand.
struct Rereading {
  int64_t row = 1, column = 1;
};

// Return the best partition of the result into at most `wanted` blocks that satisfy `allowed`. The best partition
// leaves the fewest threads idle at the end; among equally good partitions, it has the most blocks and then the least
// re-reading of operands. Return an empty partition if no partition provides a block for every thread.
template <class Allowed>
std::vector<Cut> best_cuts(size_t rank, int64_t rows, int64_t columns, int64_t wanted, const Rereading& cost,
                           const Allowed& allowed) {
  const int64_t threads = std::min<int64_t>(thread_count(), wanted);
  // rating of the best partition so far, compared in this order: thread utilization, block count, negative read cost
  std::tuple<double, int64_t, int64_t> best{};
  std::vector<Cut> cuts;
  for (int64_t down = 1; down <= wanted; ++down)
    for (int64_t across = 1; down * across <= wanted; ++across) {
      const Cut row_cut(rank - 2, rows, down, row_unit), column_cut(rank - 1, columns, across, column_unit);
      const int64_t r = row_cut.count(), c = column_cut.count(), blocks = r * c;
      if (blocks < threads || !allowed(row_cut.length(r - 1), column_cut.length(c - 1))) continue;
      const int64_t rounds = (blocks + threads - 1) / threads;
      const std::tuple score{static_cast<double>(blocks) / static_cast<double>(rounds * threads), blocks,
                             -(r * columns * cost.column + c * rows * cost.row)};
      if (score <= best) continue;
      best = score;
      cuts = {column_cut, row_cut};
    }
  return cuts;
}
std::vector<Cut> cuts_to_pack(size_t rank, int64_t rows, int64_t columns, int64_t wanted) {
  return best_cuts(rank, rows, columns, wanted, {}, packs);
}
// Return a partition for blocks that read both operands in place. If there are few rows or columns, return an empty
// partition, because the general partition is faster.
std::vector<Cut> cuts_to_read(size_t rank, int64_t rows, int64_t columns, int64_t wanted, bool transposed) {
  constexpr int64_t many_rows = 2048, many_columns = 768;
  if (!transposed && (rows < many_rows || columns < many_columns)) return {};
  const auto large_enough = [](int64_t r, int64_t c) {
    return 2 * r >= least_block.rows && 2 * c >= least_block.columns;
  };
  return best_cuts(rank, rows, columns, wanted, {1, transposed ? 1 : 2}, large_enough);
}

class OnednnProduct final : public Kernel {
 public:
  struct Part {  // the left operand, the right operand, or the result
    int argument;
    Slot slot;
    OnednnMatrix matrix;
    size_t element;
  };

  OnednnProduct(Lowering& lowering, const Epilogue& epilogue) : type_(*onednn_type(lowering.input(0).dtype)) {
    const Operand a = lowering.input(0), b = lowering.input(1), result = lowering.output();
    const size_t rank = result.dims.size(), element = size_of(a.dtype);
    const auto flag = [&](std::string_view name) {
      return lowering.attributes().has(name) && lowering.attributes().boolean(name);
    };
    parts_.push_back({DNNL_ARG_SRC, a.slot, OnednnMatrix(a.dims, rank, flag("transpose_a")), element});
    parts_.push_back({DNNL_ARG_WEIGHTS, b.slot, OnednnMatrix(b.dims, rank, flag("transpose_b")), element});
    parts_.push_back({DNNL_ARG_DST, result.slot, OnednnMatrix(result.dims, rank, false), element});
    if (epilogue.has_bias) {
      Dims row(rank, 1);
      row.back() = result.dims.back();
      parts_.push_back({DNNL_ARG_BIAS, epilogue.bias(lowering).slot, OnednnMatrix(row, rank, false), element});
    }
    if (epilogue.has_residual)
      parts_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, epilogue.residual(lowering).slot,
                        parts_[2].matrix, element});
    if (epilogue.relu) relu_ = result;
    cut(rank);
  }

  // Create the primitives. Return false if oneDNN does not support these matrices.
  bool make(Lowering& lowering, const Epilogue& epilogue, bool take_reference) {
    const OnednnThreads one(1);
    const int64_t blocks = count();
    size_t most = 0;
    std::vector<std::array<int64_t, 3>> shapes;
    for (int64_t i = 0; i < blocks; ++i) {
      const std::array<int64_t, 3> at = place(i);
      std::array<int64_t, 3> shape;
      for (size_t c = 0; c < cuts_.size(); ++c) shape[c] = cuts_[c].length(at[c]);
      const auto known = std::ranges::find(shapes, shape);
      variant_.push_back(static_cast<size_t>(known - shapes.begin()));
      if (known != shapes.end()) continue;
      shapes.push_back(shape);
      std::vector<memory::desc> parts;
      for (const Part& part : parts_) parts.push_back(description_of(part, shape));
      const dnnl::primitive_attr attributes = epilogue.attributes(parts[2]);
      const auto description =
          epilogue.has_bias
              ? try_primitive<Description>(take_reference, parts[0], parts[1], parts[3], parts[2], attributes)
              : try_primitive<Description>(take_reference, parts[0], parts[1], parts[2], attributes);
      if (!description) return false;
      const memory::desc scratchpad = description->scratchpad_desc();
      most = std::max(most, scratchpad.get_size());
      if (text_.empty()) text_ = cat("oneDNN ", description->impl_info_str());
      variants_.push_back({dnnl::matmul(*description), std::move(parts), scratchpad});
    }
    members_ = std::min<int64_t>(blocks, thread_count());
    scratch_bytes_ = (most + 63) / 64 * 64;
    if (most > 0) scratch_ = lowering.scratch(scratch_bytes_ * static_cast<size_t>(members_));
    if (blocks > 1) text_ += cat(", ", blocks, " blocks");
    if (relu_) text_ += ", relu";
    return true;
  }

  void run(Frame& frame) const override {
    State& state = static_cast<State&>(*frame.states[index]);
    parallel_items(count(), [&](int64_t block, int64_t member) {
      const OnednnThreads one(1);
      const size_t variant = variant_[static_cast<size_t>(block)];
      Call& call = state.calls[static_cast<size_t>(member) * variants_.size() + variant];
      const std::array<int64_t, 3> at = place(block);
      for (size_t i = 0; i < parts_.size(); ++i) call.point(i, frame.pointers[parts_[i].slot] + offset(parts_[i], at));
      if (scratch_ >= 0)
        call.point(parts_.size(), frame.pointers[scratch_] + scratch_bytes_ * static_cast<size_t>(member));
      execute_primitive(variants_[variant].primitive, call.arguments, name);
    });
    if (relu_) relu_of(frame, *relu_);
  }

  std::unique_ptr<KernelState> make_state() const override {
    auto state = std::make_unique<State>();
    for (int64_t member = 0; member < members_; ++member)
      for (const Variant& variant : variants_) {
        Call& call = state->calls.emplace_back();
        for (size_t i = 0; i < parts_.size(); ++i) call.add(parts_[i].argument, variant.parts[i]);
        if (scratch_ >= 0) call.add(DNNL_ARG_SCRATCHPAD, variant.scratchpad);
      }
    return state;
  }
  std::string description() const override { return text_; }

 private:
  struct Variant {  // a primitive for all blocks of one shape
    dnnl::matmul primitive;
    std::vector<memory::desc> parts;
    memory::desc scratchpad;
  };
  struct Call {  // memory objects that one thread passes to a primitive
    std::vector<memory> memories;
    std::vector<std::byte*> current;
    std::vector<dnnl_exec_arg_t> arguments;

    void add(int argument, const memory::desc& description) {
      memories.push_back(memory(description, onednn_engine(), DNNL_MEMORY_NONE));
      current.push_back(nullptr);
      arguments.push_back({argument, memories.back().get()});
    }
    void point(size_t i, std::byte* to) {
      if (current[i] == to) return;
      dnnl_memory_set_data_handle(memories[i].get(), to);
      current[i] = to;
    }
  };
  struct State final : KernelState {
    std::vector<Call> calls;  // indexed by [thread][variant]
  };

  // Partition the result. Batched matmuls are first divided along a batch axis. float32 matmuls are then divided so
  // that oneDNN packs the operands or, if oneDNN does not pack, re-reads the operands as little as possible. Matmuls of
  // other types are divided along columns and then rows. If each thread gets a single block with enough rows, only rows
  // are divided, so that threads read and write entire rows.
  void cut(size_t rank) {
    const memory::dims& result = parts_[2].matrix.dims;
    int64_t products = parts_[0].matrix.dims[rank - 1];
    for (const int64_t size : result) products *= size;
    int64_t wanted = most_blocks(products);
    size_t batch = 0;
    for (size_t axis = 1; axis + 2 < rank; ++axis)
      if (result[axis] > result[batch]) batch = axis;
    const auto take = [&](size_t axis, int64_t least, int64_t unit) {
      const int64_t size = result[axis];
      cuts_.push_back(Cut(axis, size, even(std::clamp<int64_t>(size / least, 1, wanted)), unit));
      wanted = (wanted + cuts_.back().count() - 1) / cuts_.back().count();
    };
    if (rank > 2) take(batch, 1, 1);
    const int64_t rows = result[rank - 2], columns = result[rank - 1];
    const bool transposed = parts_[0].matrix.transposed;
    if (type_ == memory::data_type::f32) {
      std::vector<Cut> cuts;
      if (needs_packing(transposed)) cuts = cuts_to_pack(rank, rows, columns, wanted);
      if (cuts.empty() && onednn_multiplies_bfloat16() && wanted > thread_count())
        cuts = cuts_to_read(rank, rows, columns, wanted, transposed);
      cuts_.insert(cuts_.end(), cuts.begin(), cuts.end());
      if (!cuts.empty()) return;
    }
    const auto pieces = [&](const LeastBlock& least) {
      return std::max<int64_t>(rows / least.rows, 1) * std::max<int64_t>(columns / least.columns, 1);
    };
    const bool enough = pieces(least_block) >= std::min<int64_t>(wanted, thread_count());
    const LeastBlock& least = enough ? least_block : smallest_block;
    if (wanted <= thread_count() && rows >= wanted * enough_rows) return take(rank - 2, enough_rows, row_unit);
    take(rank - 1, least.columns, column_unit);
    take(rank - 2, least.rows, row_unit);
  }

  // Reduce the number of pieces slightly so that the block count is a multiple of the thread count, because otherwise
  // some threads are idle at the end: on two threads, five blocks take as long as six.
  int64_t even(int64_t pieces) const {
    const int64_t blocks = count(), threads = thread_count();
    for (int64_t fewer = pieces; 2 * fewer > pieces; --fewer)
      if (blocks * fewer % threads == 0) return fewer;
    return pieces;
  }

  int64_t count() const {
    int64_t count = 1;
    for (const Cut& cut : cuts_) count *= cut.count();
    return count;
  }
  std::array<int64_t, 3> place(int64_t block) const {
    std::array<int64_t, 3> at{};
    for (size_t c = 0; c < cuts_.size(); ++c) {
      at[c] = block % cuts_[c].count();
      block /= cuts_[c].count();
    }
    return at;
  }
  // Return whether dividing the result along the axis of `cut` also divides this operand. Cutting rows does not divide
  // the right operand, cutting columns does not divide the left operand, and broadcast axes are never divided.
  static bool cuts_through(const Part& part, const Cut& cut, size_t rank) {
    if (part.argument == DNNL_ARG_SRC && cut.axis == rank - 1) return false;
    if (part.argument == DNNL_ARG_WEIGHTS && cut.axis == rank - 2) return false;
    return part.matrix.dims[cut.axis] == cut.size && cut.size > 1;
  }
  memory::desc description_of(const Part& part, const std::array<int64_t, 3>& shape) const {
    memory::dims dims = part.matrix.dims;
    for (size_t c = 0; c < cuts_.size(); ++c)
      if (cuts_through(part, cuts_[c], dims.size())) dims[cuts_[c].axis] = shape[c];
    return memory::desc(dims, type_, part.matrix.strides);
  }
  size_t offset(const Part& part, const std::array<int64_t, 3>& at) const {
    int64_t elements = 0;
    for (size_t c = 0; c < cuts_.size(); ++c)
      if (cuts_through(part, cuts_[c], part.matrix.dims.size()))
        elements += cuts_[c].begin(at[c]) * part.matrix.strides[cuts_[c].axis];
    return static_cast<size_t>(elements) * part.element;
  }

  memory::data_type type_;
  std::vector<Part> parts_;
  std::vector<Cut> cuts_;
  std::vector<Variant> variants_;
  std::vector<size_t> variant_;  // index of the primitive for each block
  std::optional<Operand> relu_;
  int64_t members_ = 1;
  Slot scratch_ = -1;
  size_t scratch_bytes_ = 0;
  std::string text_;
};

}  // namespace

bool onednn_packs(int64_t rows, int64_t columns, int64_t steps, bool transposed) {
  return !needs_packing(transposed) || !cuts_to_pack(2, rows, columns, most_blocks(rows * columns * steps)).empty();
}

Offer onednn_product(Lowering& lowering) {
  const Operand a = lowering.input(0), result = lowering.output();
  if (!onednn_type(a.dtype) || multiplies_in_float32(a.dtype))
    return decline(cat("does not multiply ", a.dtype, " on this processor"));
  if (result.elements() == 0 || a.elements() == 0) return decline("an operand is empty");
  if (result.dims.size() > static_cast<size_t>(DNNL_MAX_NDIMS)) return decline("has too many dimensions");
  const Epilogue epilogue(lowering.operation());
  auto kernel = std::make_unique<OnednnProduct>(lowering, epilogue);
  const bool fused = lowering.operation().is("fused_matrix_multiplication");
  if (!kernel->make(lowering, epilogue, fused)) return decline("oneDNN has no implementation");
  return kernel;
}

}  // namespace mpsgraph::cpu
