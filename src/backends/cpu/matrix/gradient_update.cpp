// Weight gradient fused with the update of the weights. GEMM computes each block of the gradient, and the update reads
// the block while it is in L2.
//
// The incoming gradient is packed once. A thread takes the next band of rows of the gradient whenever it is free, packs
// its part of the source, and computes the band a block of columns at a time. A block sums over all steps, so the
// result does not depend on which thread computes it.
#include "backends/cpu/matrix/gradient_update.h"

#include <algorithm>

#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t least_inner = 8, most_inner = 256;  // range of the inner dimension
constexpr int64_t least_elements = 1 << 16, least_outputs = 16;  // of the gradient
// Maximum elements of a block, which stays in L2, and its columns if the gradient has more.
constexpr int64_t block_elements = 1 << 15, columns_of_block = 512;

class GradientUpdate final : public Kernel {
 public:
  GradientUpdate(Lowering& lowering, const Operation& product, Slot source, Slot incoming, Slot gradient,
                 std::unique_ptr<FusedElementwiseKernel> update)
      : source_(source),
        incoming_(incoming),
        gradient_(gradient),
        update_(std::move(update)),
        steps_(product.input(0)->type.shape.dims()[0]),
        inputs_(product.output()->type.shape.dims()[0]),
        outputs_(product.output()->type.shape.dims()[1]),
        panels_(steps_, outputs_) {
    const GemmTiles<float>& tiles = gemm_tiles<float>();
    const int64_t across = pieces_of(outputs_, columns_of_block), threads = thread_count();
    width_ = pieces_of(pieces_of(outputs_, across), tiles.columns) * tiles.columns;
    const int64_t most = std::clamp<int64_t>(block_elements / width_ / tiles.rows * tiles.rows, tiles.rows,
                                             GemmRows<float>::most_rows(steps_));
    bands_ = pieces_of(inputs_, most * threads) * threads;  // the same number of bands for each thread
    height_ = pieces_of(pieces_of(inputs_, bands_), tiles.rows) * tiles.rows;
    bands_ = pieces_of(inputs_, height_);
    panel_slot_ = floats(lowering, panels_.elements());
    block_slot_ = floats(lowering, threads * height_ * width_);
  }

  void run(Frame& frame) const override {
    const auto* source = frame.at<const float>(source_);
    const Matrix<const float> incoming{frame.at<const float>(incoming_), steps_, outputs_, outputs_, 1};
    float *panels = frame.at<float>(panel_slot_), *blocks = frame.at<float>(block_slot_);
    parallel_phases(thread_count(), {panels_.pieces(), bands_}, [&](int64_t phase, Items& items) {
      for (int64_t i : items) {
        if (phase == 0) {
          panels_.pack(incoming, i, panels);
          continue;
        }
        const int64_t begin = i * height_, end = std::min(begin + height_, inputs_);
        const GemmRows<float> rows(Matrix<const float>{source + begin, end - begin, steps_, 1, inputs_});
        for (int64_t column = 0; column < outputs_; column += width_)
          multiply(frame, rows, begin, column, panels, blocks + items.member() * height_ * width_);
      }
    });
  }
  std::string description() const override {
    return cat("weight gradient in ", bands_ * pieces_of(outputs_, width_),
               " blocks, each fused with its update: ", update_->description());
  }

 private:
  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }

  // Compute a block of the gradient, and update the weights.
  void multiply(Frame& frame, const GemmRows<float>& rows, int64_t begin, int64_t column, const float* panels,
                float* block) const {
    const int64_t columns = std::min(width_, outputs_ - column), panel = gemm_tiles<float>().columns;
    panels_.multiply(rows, panels, {block, rows.rows, columns, columns, 1}, column / panel,
                     pieces_of(column + columns, panel));
    const auto update = [&](int64_t first, int64_t count, float* from) {
      update_->run_block(frame, first, first + count, gradient_, reinterpret_cast<std::byte*>(from));
    };
    if (columns == outputs_) return update(begin * outputs_, rows.rows * outputs_, block);
    for (int64_t r = 0; r < rows.rows; ++r) update((begin + r) * outputs_ + column, columns, block + r * columns);
  }

  Slot source_, incoming_, gradient_, panel_slot_ = -1, block_slot_ = -1;
  std::unique_ptr<FusedElementwiseKernel> update_;
  int64_t steps_, inputs_, outputs_;
  GemmPanels<float> panels_;
  int64_t bands_ = 1, height_ = 0, width_ = 0;
};

bool flag(const Operation& operation, std::string_view name) {
  return operation.attributes.has(name) && operation.attributes.boolean(name);
}

}  // namespace

bool computes_in_blocks(const Operation& product) {
  const bool is_product =
      product.is("matrix_multiplication") || (product.is("fused_matrix_multiplication") && product.inputs.size() == 2 &&
                                              product.attributes.string("activation") == "none");
  if (!is_product || product.output()->type.dtype != DType::float32) return false;
  const Dims &left = product.input(0)->type.shape.dims(), &right = product.input(1)->type.shape.dims();
  return left.size() == 2 && right.size() == 2 && flag(product, "transpose_a") && !flag(product, "transpose_b") &&
         left[0] >= least_inner && left[0] <= most_inner && right[1] >= least_outputs &&
         left[1] * right[1] >= least_elements;
}

std::unique_ptr<Kernel> gradient_update(Lowering& lowering, const Operation& product, Slot source, Slot incoming,
                                        Slot gradient, std::unique_ptr<Kernel>& update) {
  auto* region = dynamic_cast<FusedElementwiseKernel*>(update.get());
  if (!region || !region->take_blocks(gradient)) return nullptr;
  static_cast<void>(update.release());
  return std::make_unique<GradientUpdate>(lowering, product, source, incoming, gradient,
                                          std::unique_ptr<FusedElementwiseKernel>(region));
}

}  // namespace mpsgraph::cpu
