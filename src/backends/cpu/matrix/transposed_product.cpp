// Both factors are packed, a chunk of steps at a time: the right one into panels that all threads read, the left one by
// whoever multiplies a block of its columns. Sums of a chunk are added to the result.
//
// Chunks depend on the sizes alone, and each element of a block is summed by one thread, so that the result has the
// same bits with any number of threads.
#include "backends/cpu/matrix/transposed_product.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

using Tiles = ConvolutionTiles<float, float>;

constexpr int64_t most_steps = 256;  // of a chunk: a panel of them and a tile's rows fit the first-level cache
constexpr int64_t tiles_of_block = 16;  // packed rows of a chunk stay in the second-level cache
constexpr int64_t panels_of_block = 32;  // so many use them before they are packed again
constexpr int64_t items_for_a_thread = 4;  // at least, where blocks have more than two tiles
constexpr int64_t least_steps = 16;

class TransposedProduct final : public Kernel {
 public:
  TransposedProduct(Lowering& lowering, const Tiles& tiles, const Operand& left, const Operand& right, Slot residual)
      : tiles_(tiles),
        left_(left.slot),
        right_(right.slot),
        residual_(residual),
        result_(lowering.output().slot),
        steps_(left.dims[0]),
        rows_(left.dims[1]),
        columns_(right.dims[1]),
        panels_((columns_ + tiles.columns - 1) / tiles.columns),
        chunks_((steps_ + most_steps - 1) / most_steps),
        longest_((steps_ + chunks_ - 1) / chunks_),
        block_panels_(std::min(panels_, panels_of_block)),
        block_rows_(tiles_of_block * tiles.rows) {
    across_ = (panels_ + block_panels_ - 1) / block_panels_;
    const int64_t wanted = thread_count() * items_for_a_thread;
    while (block_rows_ > 2 * tiles.rows && (rows_ + block_rows_ - 1) / block_rows_ * across_ < wanted)
      block_rows_ -= tiles.rows;
    down_ = (rows_ + block_rows_ - 1) / block_rows_;
    packed_right_ = floats(lowering, panels_ * tiles.columns * longest_);
    packed_left_ = floats(lowering, thread_count() * block_rows_ * longest_);
  }

  void run(Frame& frame) const override {
    const auto count = [&](int64_t phase) { return phase % 2 == 0 ? panels_ : down_ * across_; };
    parallel_phases(thread_count(), 2 * chunks_, count, [&](int64_t phase, Items& items) {
      const int64_t chunk = phase / 2, begin = steps_ * chunk / chunks_, end = steps_ * (chunk + 1) / chunks_;
      float* packed = frame.at<float>(packed_left_) + items.member() * block_rows_ * longest_;
      for (int64_t i : items)
        if (phase % 2 == 0)
          pack_right(frame, i, begin, end);
        else
          multiply(frame, i % down_ * block_rows_, i / down_ * block_panels_, begin, end, packed);
    });
  }
  std::string description() const override {
    return cat("transposed, packed in ", chunks_, " chunks of steps, ", down_ * across_, " blocks");
  }

 private:
  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }
  int width(int64_t panel) const {
    return static_cast<int>(std::min<int64_t>(tiles_.columns, columns_ - panel * tiles_.columns));
  }
  float* panel_of(Frame& frame, int64_t panel, int64_t steps) const {
    return frame.at<float>(packed_right_) + panel * tiles_.columns * steps;
  }

  void pack_right(Frame& frame, int64_t panel, int64_t begin, int64_t end) const {
    const float* from = frame.at<const float>(right_) + begin * columns_ + panel * tiles_.columns;
    tiles_.pack(from, columns_, 1, end - begin, width(panel), panel_of(frame, panel, end - begin));
  }

  // packed[tile][step][row], as many rows a tile as `tiles` has at most.
  void pack_left(Frame& frame, int64_t row, int64_t rows, int64_t begin, int64_t end, float* packed) const {
    const int64_t height = tiles_.rows, size = height * (end - begin);
    const float* from = frame.at<const float>(left_) + begin * rows_ + row;
    for (int64_t step = begin; step < end; ++step, from += rows_, packed += height) {
      float* to = packed;
      int64_t i = 0;
      for (; i + height <= rows; i += height, to += size) std::memcpy(to, from + i, sizeof(float) * height);
      if (i < rows) std::memcpy(to, from + i, sizeof(float) * (rows - i));
    }
  }

  void multiply(Frame& frame, int64_t row, int64_t panel, int64_t begin, int64_t end, float* packed) const {
    const int64_t rows = std::min(block_rows_, rows_ - row), steps = end - begin;
    const int64_t last_panel = std::min(panel + block_panels_, panels_);
    pack_left(frame, row, rows, begin, end, packed);
    const float* step_rows[most_steps];
    for (int64_t step = 0; step < steps; ++step) step_rows[step] = packed + step * tiles_.rows;
    float* to = frame.at<float>(result_) + row * columns_;
    if (begin == 0 && residual_ >= 0) {
      const int64_t column = panel * tiles_.columns, end_column = std::min(last_panel * tiles_.columns, columns_);
      const float* from = frame.at<const float>(residual_) + row * columns_;
      for (int64_t r = 0; r < rows; ++r)
        std::memmove(to + r * columns_ + column, from + r * columns_ + column, sizeof(float) * (end_column - column));
    }
    const bool fresh = begin == 0 && residual_ < 0;
    for (; panel < last_panel; ++panel)
      for (int64_t r = 0; r < rows; r += tiles_.rows) {
        const int count = static_cast<int>(std::min<int64_t>(tiles_.rows, rows - r));
        float* out = to + r * columns_ + panel * tiles_.columns;
        if (width(panel) == tiles_.columns)
          tiles_.multiply_transposed(count, step_rows, r * steps, steps, panel_of(frame, panel, steps), nullptr, fresh,
                                     out, columns_);
        else
          multiply_narrow(count, step_rows, r * steps, steps, panel_of(frame, panel, steps), width(panel), fresh, out);
      }
  }

  // The last panel, of which the result has fewer columns.
  void multiply_narrow(int count, const float* const* step_rows, int64_t first, int64_t steps, const float* panel,
                       int width, bool fresh, float* out) const {
    alignas(64) float sums[Tiles::most_rows * most_columns];
    tiles_.multiply_transposed(count, step_rows, first, steps, panel, sums, true, nullptr, 0);
    for (int r = 0; r < count; ++r)
      for (int c = 0; c < width; ++c) {
        float& to = out[r * columns_ + c];
        const float sum = sums[r * tiles_.columns + c];
        to = fresh ? sum : to + sum;
      }
  }

  static constexpr int most_columns = 32;

  const Tiles& tiles_;
  Slot left_, right_, residual_, result_, packed_right_ = -1, packed_left_ = -1;
  int64_t steps_, rows_, columns_, panels_, chunks_, longest_, block_panels_, block_rows_, across_ = 1, down_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> transposed_product(Lowering& lowering, const Operand& left, const Operand& right,
                                           Slot residual) {
  const Tiles* tiles = convolution_tiles<float, float>();
  if (!tiles || left.dims.size() != 2 || right.dims.size() != 2 || left.dtype != DType::float32) return nullptr;
  if (left.dims[0] < least_steps) return nullptr;
  return std::make_unique<TransposedProduct>(lowering, *tiles, left, right, residual);
}

}  // namespace mpsgraph::cpu
