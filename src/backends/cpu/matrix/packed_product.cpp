// Packed GEMM that accumulates the result one chunk of the inner dimension at a time. A left operand that is not
// transposed is read in place, and the thread that multiplies a block of right columns packs these columns into panels
// that stay in its caches. A transposed left operand is packed by the thread that multiplies a block of its columns.
// All threads then need all panels of the right operand, so the threads pack these together beforehand.
//
// Chunks depend only on sizes, and one thread sums each element of a block, so the results are bitwise identical for
// any number of threads.
#include "backends/cpu/matrix/packed_product.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

using Tiles = ConvolutionTiles<float, float>;

// maximum inner dimension of a chunk, so that a panel and the rows of a tile fit in L1
constexpr int64_t most_steps = 256;
constexpr int64_t tiles_of_block = 16;  // row tiles per block, whose part of a chunk stays in L2
constexpr int64_t panels_of_block = 32;  // panels that are multiplied by packed rows before these are packed again
// panels packed together, so that at least 512 contiguous bytes are read from each row
constexpr int64_t panels_at_once = 8;
constexpr int64_t steps_at_once = 16;  // matrix rows packed into each panel before moving to the next panel
constexpr int64_t items_for_a_thread = 4;  // minimum blocks per thread, unless the blocks would become small

class PackedProduct final : public Kernel {
 public:
  PackedProduct(Lowering& lowering, const Tiles& tiles, const Operand& left, const Operand& right, bool transposed,
                const ProductEpilogue& extras)
      : tiles_(tiles),
        transposed_(transposed),
        left_(left.slot),
        right_(right.slot),
        result_(lowering.output().slot),
        extras_(extras),
        steps_(right.dims[0]),
        rows_(left.dims[transposed ? 1 : 0]),
        columns_(right.dims[1]),
        panels_((columns_ + tiles.columns - 1) / tiles.columns),
        chunks_((steps_ + most_steps - 1) / most_steps),
        longest_((steps_ + chunks_ - 1) / chunks_),
        block_panels_(std::min(panels_, transposed ? panels_of_block : panels_at_once)),
        block_rows_(tiles_of_block * tiles.rows) {
    const int64_t wanted = thread_count() * items_for_a_thread;
    if (transposed) {
      while (block_rows_ > 2 * tiles.rows && pieces(rows_, block_rows_) * pieces(panels_, block_panels_) < wanted)
        block_rows_ -= tiles.rows;
      packed_left_ = floats(lowering, thread_count() * block_rows_ * longest_);
    } else {
      while (block_panels_ > 1 && pieces(panels_, block_panels_) < wanted) --block_panels_;
    }
    down_ = pieces(rows_, block_rows_);
    across_ = pieces(panels_, block_panels_);
    packed_right_ = floats(lowering, (transposed ? panels_ : thread_count() * block_panels_) * panel_size());
  }

  void run(Frame& frame) const override {
    if (transposed_)
      run_transposed(frame);
    else
      parallel_items(across_, [&](int64_t i, int64_t member) {
        float* panels = frame.at<float>(packed_right_) + member * block_panels_ * panel_size();
        for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
          pack_right(frame, i * block_panels_, block_panels_, chunk, panels);
          for (int64_t block = 0; block < down_; ++block) multiply(frame, block, i, chunk, nullptr, panels);
        }
      });
  }
  std::string description() const override {
    return cat(transposed_ ? "transposed, " : "", "packed in ", chunks_, " chunks of the inner dimension, ",
               down_ * across_, " blocks");
  }

 private:
  struct Steps {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  Steps steps_of(int64_t chunk) const { return {steps_ * chunk / chunks_, steps_ * (chunk + 1) / chunks_}; }

  static int64_t pieces(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }
  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }
  int64_t panel_size() const { return tiles_.columns * longest_; }
  int width(int64_t panel) const {
    return static_cast<int>(std::min<int64_t>(tiles_.columns, columns_ - panel * tiles_.columns));
  }

  void run_transposed(Frame& frame) const {
    const auto count = [&](int64_t phase) {
      return phase % 2 == 0 ? pieces(panels_, panels_at_once) : down_ * across_;
    };
    parallel_phases(thread_count(), 2 * chunks_, count, [&](int64_t phase, Items& items) {
      float* panels = frame.at<float>(packed_right_);
      float* packed = frame.at<float>(packed_left_) + items.member() * block_rows_ * longest_;
      for (int64_t i : items)
        if (phase % 2 == 0) {
          pack_right(frame, i * panels_at_once, panels_at_once, phase / 2, panels + i * panels_at_once * panel_size());
        } else {
          const int64_t block = i / down_;
          multiply(frame, i % down_, block, phase / 2, packed, panels + block * block_panels_ * panel_size());
        }
    });
  }

  // Pack `count` panels, starting at panel `first`. The packed panels are panel_size() floats apart.
  void pack_right(Frame& frame, int64_t first, int64_t count, int64_t chunk, float* panels) const {
    const Steps steps = steps_of(chunk);
    const int64_t last = std::min(first + count, panels_), column = first * tiles_.columns;
    const int64_t end = std::min(last * tiles_.columns, columns_);
    for (int64_t step = steps.begin; step < steps.end; step += steps_at_once) {
      const float* from = frame.at<const float>(right_) + step * columns_;
      for (int64_t ahead = steps_at_once; ahead < 2 * steps_at_once && step + ahead < steps.end; ++ahead)
        for (int64_t i = column; i < end; i += 16) __builtin_prefetch(from + ahead * columns_ + i);
      for (int64_t panel = first; panel < last; ++panel)
        tiles_.pack(from + panel * tiles_.columns, columns_, 1, std::min(steps_at_once, steps.end - step), width(panel),
                    panels + (panel - first) * panel_size() + (step - steps.begin) * tiles_.columns);
    }
  }

  // Pack the left operand to packed[tile][step][row], where each tile has its full height.
  void pack_left(Frame& frame, int64_t row, int64_t rows, Steps steps, float* packed) const {
    const int64_t height = tiles_.rows, size = height * steps.count();
    const float* from = frame.at<const float>(left_) + steps.begin * rows_ + row;
    for (int64_t step = 0; step < steps.count(); ++step, from += rows_, packed += height) {
      float* to = packed;
      int64_t i = 0;
      for (; i + height <= rows; i += height, to += size) std::memcpy(to, from + i, sizeof(float) * height);
      if (i < rows) std::memcpy(to, from + i, sizeof(float) * (rows - i));
    }
  }

  // Multiply one block of the result. `packed` is scratch memory for a transposed left operand.
  void multiply(Frame& frame, int64_t down, int64_t across, int64_t chunk, float* packed, const float* panels) const {
    const Steps steps = steps_of(chunk);
    const int64_t row = down * block_rows_, rows = std::min(block_rows_, rows_ - row);
    const int64_t first = across * block_panels_, last = std::min(first + block_panels_, panels_);
    const bool fresh = chunk == 0;
    const TileRun all{0, 0, steps.count()};
    const float* factors[most_steps];  // one pointer per inner index (transposed left operand) or per row
    if (transposed_) {
      pack_left(frame, row, rows, steps, packed);
      for (int64_t step = 0; step < steps.count(); ++step) factors[step] = packed + step * tiles_.rows;
    } else {
      for (int64_t r = 0; r < rows; ++r) factors[r] = frame.at<const float>(left_) + (row + r) * steps_ + steps.begin;
    }
    alignas(64) float narrow[Tiles::most_rows * most_columns];
    for (int64_t panel = first; panel < last; ++panel, panels += panel_size()) {
      const int columns = width(panel);
      const bool whole = columns == tiles_.columns;
      for (int64_t r = 0; r < rows;) {
        const auto count =
            transposed_ ? static_cast<int>(std::min<int64_t>(tiles_.rows, rows - r)) : tiles_.next_rows(rows - r);
        float* out = frame.at<float>(result_) + (row + r) * columns_ + panel * tiles_.columns;
        if (!whole && !fresh)
          for (int i = 0; i < count; ++i) std::copy_n(out + i * columns_, columns, narrow + i * tiles_.columns);
        float* sums = whole ? out : narrow;
        const int64_t stride = whole ? columns_ : tiles_.columns;
        if (transposed_) {
          tiles_.multiply_transposed(count, factors, r * steps.count(), steps.count(), panels, nullptr, fresh, sums,
                                     stride);
        } else {
          float* rows_of_sums[Tiles::most_rows];
          for (int i = 0; i < count; ++i) rows_of_sums[i] = sums + i * stride;
          if (fresh)
            tiles_.multiply(count, factors + r, &all, 1, panels, rows_of_sums, tiles_.columns, {});
          else
            tiles_.add(count, factors + r, steps.count(), panels, rows_of_sums);
        }
        if (!whole || steps.end == steps_) finish(frame, count, sums, stride, panel, steps.end == steps_, out);
        r += count;
      }
    }
  }

  // Store the sums of a row of the tile. After the last chunk, apply the epilogue as well.
  void finish(Frame& frame, int count, const float* sums, int64_t stride, int64_t panel, bool last, float* out) const {
    TileEpilogue<float> epilogue;
    if (last) {
      epilogue.relu = extras_.relu;
      if (extras_.bias >= 0) epilogue.bias = frame.at<const float>(extras_.bias) + panel * tiles_.columns;
      if (extras_.residual >= 0)
        epilogue.residual = frame.at<const std::byte>(extras_.residual) - frame.at<const std::byte>(result_);
      if (sums == out && !epilogue.relu && !epilogue.bias && !epilogue.residual) return;
    }
    for (int i = 0; i < count; ++i) tiles_.finish(sums + i * stride, out + i * columns_, width(panel), epilogue);
  }

  static constexpr int most_columns = 32;

  const Tiles& tiles_;
  bool transposed_;
  Slot left_, right_, result_, packed_right_ = -1, packed_left_ = -1;
  ProductEpilogue extras_;
  int64_t steps_, rows_, columns_, panels_, chunks_, longest_, block_panels_, block_rows_, across_ = 1, down_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> packed_product(Lowering& lowering, const Operand& left, const Operand& right, bool transposed,
                                       const ProductEpilogue& extras) {
  const Tiles* tiles = convolution_tiles<float, float>();
  if (!tiles || left.dims.size() != 2 || right.dims.size() != 2 || left.dtype != DType::float32) return nullptr;
  return std::make_unique<PackedProduct>(lowering, *tiles, left, right, transposed, extras);
}

}  // namespace mpsgraph::cpu
