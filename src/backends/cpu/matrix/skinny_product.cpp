// Matmul of a few rows by a large matrix (a skinny matmul) with our micro-kernels. Threads compute partial sums over
// ranges of the matrix's rows, and these sums are added at the end. If the matrix is transposed, a range of its rows
// corresponds to a range of result columns, and no partial sums are needed.
#include "backends/cpu/matrix/skinny_product.h"

#include <algorithm>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

using Tiles = ConvolutionTiles<float, float>;

constexpr int64_t fewest_rows = 8, most_few_rows = 32;
constexpr int64_t least_side = 256;  // minimum side length of the matrix, in elements
// Minimum and maximum number of matrix elements. The threads' parts of larger matrices do not stay in L2.
constexpr int64_t least_weights = 1 << 18, most_weights = 1 << 20;
constexpr int64_t least_steps = 128;  // minimum matrix rows per part
constexpr int most_parts = 8;

class SkinnyProduct final : public Kernel {
 public:
  SkinnyProduct(Lowering& lowering, const Tiles& tiles, const Operand& rows, const Operand& matrix,
                const ProductEpilogue& extras)
      : tiles_(tiles),
        rows_slot_(rows.slot),
        matrix_slot_(matrix.slot),
        result_(lowering.output().slot),
        extras_(extras),
        steps_(rows.dims.back()),
        rows_(rows.elements() / steps_),
        columns_(matrix.dims.back()),
        panels_(columns_ / tiles.columns),
        parts_(std::clamp<int64_t>(steps_ / least_steps, 1, std::min(thread_count(), most_parts))) {
    sums_slot_ = lowering.scratch(static_cast<size_t>(parts_ * rows_ * columns_) * sizeof(float));
  }

  void run(Frame& frame) const override {
    parallel_phases(thread_count(), {parts_ * panels_, panels_}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          multiply(frame, i / panels_, i % panels_);
        else
          finish(frame, i);
    });
  }
  std::string description() const override {
    return cat("skinny matmul, in ", parts_, " parts and panels of ", tiles_.columns, " columns");
  }

 private:
  float* sums_of(Frame& frame, int64_t part, int64_t panel) const {
    return frame.at<float>(sums_slot_) + (part * panels_ + panel) * rows_ * tiles_.columns;
  }

  // Multiply all rows by one panel (a group of columns) of the matrix, restricted to one part of the matrix rows.
  void multiply(Frame& frame, int64_t part, int64_t panel) const {
    const int64_t begin = steps_ * part / parts_, end = steps_ * (part + 1) / parts_;
    const float* source = frame.at<const float>(rows_slot_) + begin;
    const float* matrix = frame.at<const float>(matrix_slot_) + begin * columns_ + panel * tiles_.columns;
    float* sums = sums_of(frame, part, panel);
    for (int64_t row = 0; row < rows_;) {
      const int count = tiles_.next_rows(rows_ - row);
      tiles_.multiply_plain(count, source + row * steps_, steps_, end - begin, matrix, columns_, row == 0,
                            sums + row * tiles_.columns);
      row += count;
    }
  }

  // Add the partial sums of one panel and store the result.
  void finish(Frame& frame, int64_t panel) const {
    const int64_t column = panel * tiles_.columns;
    const float* sums = sums_of(frame, 0, panel);
    float* to = frame.at<float>(result_) + column;
    TileEpilogue<float> epilogue;
    epilogue.relu = extras_.relu;
    if (extras_.bias >= 0) epilogue.bias = frame.at<const float>(extras_.bias) + column;
    if (extras_.residual >= 0)
      epilogue.residual = frame.at<const std::byte>(extras_.residual) - frame.at<const std::byte>(result_);
    for (int64_t row = 0; row < rows_; ++row) {
      // prefetch the next row of partial sums, most of which other threads have written
      const float* next = sums + (rows_ + row) * tiles_.columns;
      for (int64_t part = 0; part < parts_; ++part)
        for (int64_t i = 0; i < tiles_.columns; i += 16) __builtin_prefetch(next + part * rows_ * columns_ + i);
      tiles_.finish_parts(sums + row * tiles_.columns, parts_, rows_ * columns_, to + row * columns_, epilogue);
    }
  }

  const Tiles& tiles_;
  Slot rows_slot_, matrix_slot_, result_, sums_slot_ = -1;
  ProductEpilogue extras_;
  int64_t steps_, rows_, columns_, panels_, parts_;
};

// Matmul of a few rows by a large transposed matrix. The kernel computes the transposed result: tiles take their rows
// from the matrix, and their columns from the transposed other operand.
class SkinnyProductTransposed final : public Kernel {
 public:
  SkinnyProductTransposed(Lowering& lowering, const Tiles& tiles, const Operand& rows, const Operand& matrix)
      : tiles_(tiles),
        rows_slot_(rows.slot),
        matrix_slot_(matrix.slot),
        result_(lowering.output().slot),
        steps_(rows.dims.back()),
        panels_(rows.elements() / steps_ / tiles.columns),
        columns_(matrix.dims.front()) {
    const int64_t threads = thread_count(), most = threads * rows_of_block;
    blocks_ = (columns_ + most - 1) / most * threads;  // the same number of blocks for each thread
    panel_slot_ = lowering.scratch(static_cast<size_t>(rows.elements()) * sizeof(float));
  }

  void run(Frame& frame) const override {
    const int64_t chunks = (steps_ + steps_of_chunk - 1) / steps_of_chunk;
    parallel_phases(thread_count(), {panels_ * chunks, blocks_}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          turn(frame, i / chunks, i % chunks * steps_of_chunk);
        else
          multiply(frame, border(i), border(i + 1));
    });
  }
  std::string description() const override {
    return cat("skinny matmul, transposed, in ", blocks_, " blocks and panels of ", tiles_.columns, " rows");
  }

 private:
  // Blocks have at most about rows_of_block matrix rows, and begin at multiples of `lanes` rows. The other operand is
  // transposed in pieces of steps_of_chunk inner indices.
  static constexpr int64_t rows_of_block = 48, steps_of_chunk = 64, lanes = 16;

  int64_t border(int64_t block) const {
    const int64_t units = (columns_ + lanes - 1) / lanes;
    return std::min(units * block / blocks_ * lanes, columns_);
  }
  float* panel_of(Frame& frame, int64_t panel) const {
    return frame.at<float>(panel_slot_) + panel * steps_ * tiles_.columns;
  }

  void turn(Frame& frame, int64_t panel, int64_t step) const {
    const float* from = frame.at<const float>(rows_slot_) + panel * tiles_.columns * steps_ + step;
    tiles_.pack(from, 1, steps_, std::min(steps_of_chunk, steps_ - step), tiles_.columns,
                panel_of(frame, panel) + step * tiles_.columns);
  }

  void multiply(Frame& frame, int64_t begin, int64_t end) const {
    alignas(64) float sums[(rows_of_block + lanes) * most_few_rows];
    for (int64_t panel = 0; panel < panels_; ++panel) {
      for (int64_t row = begin; row < end;) {
        const int count = tiles_.next_rows(end - row);
        tiles_.multiply_plain(count, frame.at<const float>(matrix_slot_) + row * steps_, steps_, steps_,
                              panel_of(frame, panel), tiles_.columns, false, sums + (row - begin) * tiles_.columns);
        row += count;
      }
      float* to = frame.at<float>(result_) + panel * tiles_.columns * columns_ + begin;
      tiles_.unpack(sums, end - begin, tiles_.columns, to, 1, columns_);
    }
  }

  const Tiles& tiles_;
  Slot rows_slot_, matrix_slot_, result_, panel_slot_ = -1;
  int64_t steps_, panels_, columns_, blocks_ = 1;
};

// Return the micro-kernels if it pays off to multiply `rows` by this matrix, which has `columns` columns, with the
// skinny kernels. Otherwise, return null.
const Tiles* tiles_for(const Operand& rows, const Operand& matrix, int64_t columns) {
  const Tiles* tiles = convolution_tiles<float, float>();
  if (!tiles || rows.dtype != DType::float32 || matrix.dims.size() != 2 || rows.elements() == 0) return nullptr;
  const int64_t steps = rows.dims.back(), count = rows.elements() / steps, elements = steps * columns;
  const bool few = count >= fewest_rows && count <= most_few_rows;
  const bool fits = std::min(steps, columns) >= least_side && elements >= least_weights && elements <= most_weights;
  return few && fits ? tiles : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> skinny_product(Lowering& lowering, const Operand& rows, const Operand& matrix,
                                       const ProductEpilogue& extras) {
  const Tiles* tiles = tiles_for(rows, matrix, matrix.dims.back());
  if (!tiles || matrix.dims.back() % tiles->columns != 0) return nullptr;
  return std::make_unique<SkinnyProduct>(lowering, *tiles, rows, matrix, extras);
}

std::unique_ptr<Kernel> skinny_product_transposed(Lowering& lowering, const Operand& rows, const Operand& matrix) {
  const Tiles* tiles = tiles_for(rows, matrix, matrix.dims.front());
  if (!tiles || rows.elements() / rows.dims.back() % tiles->columns != 0) return nullptr;
  return std::make_unique<SkinnyProductTransposed>(lowering, *tiles, rows, matrix);
}

}  // namespace mpsgraph::cpu
