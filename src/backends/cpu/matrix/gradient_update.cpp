// Weight gradient fused with the update of the weights: our micro-kernels compute each block of the gradient, and the
// update reads the block while it is in L2.
//
// A thread takes the next block whenever it is free. A block sums over all rows, so the result does not depend on which
// thread computes it.
#include "backends/cpu/matrix/gradient_update.h"

#include <algorithm>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

using Tiles = ConvolutionTiles<float, float>;

constexpr int64_t least_rows = 8, most_rows = 256;  // range of operand rows; larger matmuls are faster without fusion
constexpr int64_t least_elements = 1 << 16;  // minimum elements of the gradient
constexpr int64_t block_elements = 1 << 14;  // elements of a block, which stays in L2

class GradientUpdate final : public Kernel {
 public:
  GradientUpdate(Lowering& lowering, const Tiles& tiles, const Operation& product, Slot source, Slot incoming,
                 Slot gradient, std::unique_ptr<FusedElementwiseKernel> update)
      : tiles_(tiles),
        source_(source),
        incoming_(incoming),
        gradient_(gradient),
        update_(std::move(update)),
        rows_(product.input(0)->type.shape.dims()[0]),
        inputs_(product.output()->type.shape.dims()[0]),
        outputs_(product.output()->type.shape.dims()[1]),
        panels_(outputs_ / tiles.columns) {
    const int64_t most = std::max<int64_t>(block_elements / outputs_ / tiles.rows, 1) * tiles.rows;
    const int64_t threads = thread_count();
    blocks_ = (inputs_ + most * threads - 1) / (most * threads) * threads;  // the same number of blocks for each thread
    panel_slot_ = floats(lowering, rows_ * outputs_);
    block_slot_ = floats(lowering, thread_count() * most * outputs_);
    block_size_ = most * outputs_;
  }

  void run(Frame& frame) const override {
    parallel_phases(thread_count(), {panels_, blocks_}, [&](int64_t phase, Items& items) {
      float* block = frame.at<float>(block_slot_) + items.member() * block_size_;
      for (int64_t i : items) {
        if (phase == 0) {
          pack(frame, i);
          continue;
        }
        const int64_t begin = inputs_ * i / blocks_, end = inputs_ * (i + 1) / blocks_;
        multiply(frame, begin, end, block);
        update_->run_block(frame, begin * outputs_, end * outputs_, gradient_, reinterpret_cast<std::byte*>(block));
      }
    });
  }
  std::string description() const override {
    return cat("weight gradient in ", blocks_, " blocks, each fused with its update: ", update_->description());
  }

 private:
  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }

  // Pack one panel (a group of columns) of the incoming gradient into contiguous memory.
  void pack(Frame& frame, int64_t panel) const {
    const float* rows[most_rows];
    int valid[most_rows];
    for (int64_t r = 0; r < rows_; ++r) {
      rows[r] = frame.at<const float>(incoming_) + r * outputs_ + panel * tiles_.columns;
      valid[r] = 1;
    }
    tiles_.gather(rows, valid, 0, rows_, tiles_.columns, frame.at<float>(panel_slot_) + panel * rows_ * tiles_.columns);
  }

  void multiply(Frame& frame, int64_t begin, int64_t end, float* block) const {
    const float* rows[most_rows];
    for (int64_t r = 0; r < rows_; ++r) rows[r] = frame.at<const float>(source_) + r * inputs_;
    const float* panel = frame.at<const float>(panel_slot_);
    for (int64_t p = 0; p < panels_; ++p, panel += rows_ * tiles_.columns)
      for (int64_t row = begin; row < end;) {
        const int count = tiles_.next_rows(end - row);
        tiles_.multiply_transposed(count, rows, row, rows_, panel, nullptr, true,
                                   block + (row - begin) * outputs_ + p * tiles_.columns, outputs_);
        row += count;
      }
  }

  const Tiles& tiles_;
  Slot source_, incoming_, gradient_, panel_slot_ = -1, block_slot_ = -1;
  std::unique_ptr<FusedElementwiseKernel> update_;
  int64_t rows_, inputs_, outputs_, panels_, blocks_ = 1, block_size_ = 0;
};

bool flag(const Operation& operation, std::string_view name) {
  return operation.attributes.has(name) && operation.attributes.boolean(name);
}

}  // namespace

bool computes_in_blocks(const Operation& product) {
  const Tiles* tiles = convolution_tiles<float, float>();
  const bool is_product =
      product.is("matrix_multiplication") || (product.is("fused_matrix_multiplication") && product.inputs.size() == 2 &&
                                              product.attributes.string("activation") == "none");
  if (!tiles || !is_product || product.output()->type.dtype != DType::float32) return false;
  const Dims &left = product.input(0)->type.shape.dims(), &right = product.input(1)->type.shape.dims();
  return left.size() == 2 && right.size() == 2 && flag(product, "transpose_a") && !flag(product, "transpose_b") &&
         left[0] >= least_rows && left[0] <= most_rows && right[1] % tiles->columns == 0 &&
         left[1] * right[1] >= least_elements;
}

std::unique_ptr<Kernel> gradient_update(Lowering& lowering, const Operation& product, Slot source, Slot incoming,
                                        Slot gradient, std::unique_ptr<Kernel>& update) {
  auto* region = dynamic_cast<FusedElementwiseKernel*>(update.get());
  if (!region || !region->take_blocks(gradient)) return nullptr;
  static_cast<void>(update.release());
  return std::make_unique<GradientUpdate>(lowering, *convolution_tiles<float, float>(), product, source, incoming,
                                          gradient, std::unique_ptr<FusedElementwiseKernel>(region));
}

}  // namespace mpsgraph::cpu
