// Matmuls of many rows with packed weights, which are unpacked into panels of bfloat16 or float.
//
// The result is divided into pieces. A thread unpacks a few panels of its piece at a time, which stay in its L2 cache,
// and multiplies the rows of the piece by them. If a matrix has few columns, several threads unpack the same panels for
// different rows: panels that another core has written take longer to read than to unpack. A matrix is never in memory
// as a whole.
//
// A bfloat16 product rounds the weights to bfloat16, as their cast in the graph does.
#include <algorithm>
#include <numeric>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/packed_product.h"
#include "backends/cpu/matrix/quantized_product.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t bytes_of_panels = 1 << 19;  // that a thread unpacks at a time, unless a single panel is larger

// The size of a piece. The columns are those of whole panels.
struct BlockPiece {
  int64_t rows = 1, columns = 1;

  int64_t count(const QuantizedProduct& p) const { return pieces_of(p.rows, rows) * pieces_of(p.columns, columns); }
  // Call f(row, rows, column, columns) for each item.
  template <class F>
  void for_items(const QuantizedProduct& p, Items& items, const F& f) const {
    const int64_t down = pieces_of(p.rows, rows);
    for (const int64_t item : items) {
      const int64_t row = item % down * rows, column = item / down * columns;
      f(row, std::min(rows, p.rows - row), column, std::min(columns, p.columns - column));
    }
  }
  std::string text(const QuantizedProduct& p) const {
    return cat(p.packed.weights.bits, "-bit weights, unpacked in ", count(p), " pieces");
  }
};

// ---- float panels

class FloatBlocks final : public Kernel {
 public:
  FloatBlocks(Lowering& lowering, const QuantizedProduct& product) : p_(product) {
    const GemmPiece piece = gemm_division(p_.rows, p_.columns, p_.steps, unpack_time);
    piece_ = {piece.rows, pieces_of(piece.columns, unit()) * unit()};
    const int64_t panel = unit() * p_.steps * int64_t{sizeof(float)};
    together_ = std::clamp<int64_t>(bytes_of_panels / panel, 1, pieces_of(piece_.columns, unit())) * unit();
    scratch_ = unit() * most_steps + GemmPanels<float>(p_.steps, together_).elements();
    scratch_slot_ = lowering.scratch(static_cast<size_t>(thread_count() * scratch_) * sizeof(float));
    if (p_.x.dtype == DType::float32) return;
    x_ = lowering.scratch(static_cast<size_t>(p_.rows * p_.steps) * sizeof(float));
    sums_ = lowering.scratch(static_cast<size_t>(p_.rows * p_.columns) * sizeof(float));
  }

  void run(Frame& frame) const override {
    if (x_ >= 0)
      parallel_for(p_.rows, grain_for(p_.steps * 6), [&](int64_t begin, int64_t end) {
        p_.read(frame.at<const std::byte>(p_.x.slot), begin * p_.steps, (end - begin) * p_.steps,
                frame.at<float>(x_) + begin * p_.steps);
      });
    parallel_phases(thread_count(), {piece_.count(p_)}, [&](int64_t, Items& items) { multiply(frame, items); });
  }
  std::string description() const override { return piece_.text(p_); }

 private:
  static constexpr int64_t unpack_time = 32;  // of an element, in multiply-adds
  static constexpr int64_t part = 32;  // rows are unpacked in parts of this many elements
  static constexpr int64_t most_steps = most_gemm_steps + 2 * part;
  // Columns that are unpacked together: whole panels, and whole parts of the rows of weights that are not transposed.
  int64_t unit() const {
    const int64_t panel = gemm_tiles<float>().columns;
    return p_.transposed ? panel : std::lcm<int64_t>(panel, part);
  }

  void multiply(Frame& frame, Items& items) const {
    float* const buffer = frame.at<float>(scratch_slot_) + items.member() * scratch_;
    float* const packed = buffer + unit() * most_steps;
    piece_.for_items(p_, items, [&](int64_t row, int64_t rows, int64_t first, int64_t columns) {
      for (int64_t column = first; column < first + columns; column += together_) {
        const int64_t count = std::min(together_, first + columns - column);
        const GemmPanels<float> panels(p_.steps, count);
        for (int64_t i = 0; i < count; i += unit())
          for (int64_t chunk = 0; chunk < panels.chunks(); ++chunk)
            unpack(frame, panels, column, i, std::min(unit(), count - i), chunk, buffer, packed);
        multiply_panels(frame, panels, packed, row, rows, column, count);
      }
    });
  }

  // Pack one chunk of `count` columns, which begin at column `first` of the panels and at column + first of the result.
  void unpack(Frame& frame, const GemmPanels<float>& panels, int64_t column, int64_t first, int64_t count,
              int64_t chunk, float* buffer, float* packed) const {
    const int64_t size = gemm_tiles<float>().columns;
    const int64_t step = chunk * panels.chunk(), end = std::min(step + panels.chunk(), p_.steps);
    const PackedWeights weights = p_.packed.in(frame);
    Matrix<const float> unpacked{buffer, end - step, count, 1, 0};
    if (p_.transposed) {
      const int64_t begin = step / part * part, steps = pieces_of(end - begin, part) * part;
      for (int64_t i = 0; i < count; ++i)
        quantized_rows().unpack(weights, column + first + i, begin, steps, buffer + i * steps);
      unpacked.data += step - begin, unpacked.column_stride = steps;
    } else {
      const int64_t there = pieces_of(count, part) * part;  // the rows of weights have whole parts
      for (int64_t k = step; k < end; ++k)
        quantized_rows().unpack(weights, k, column + first, there, buffer + (k - step) * there);
      unpacked.row_stride = there, unpacked.column_stride = 1;
    }
    for (int64_t i = 0; i < count; i += size)
      panels.pack_chunk(unpacked.block(0, i, end - step, std::min(size, count - i)), chunk, (first + i) / size, packed);
  }

  void multiply_panels(Frame& frame, const GemmPanels<float>& panels, const float* packed, int64_t row, int64_t rows,
                       int64_t column, int64_t count) const {
    const bool is_float = x_ < 0;
    const Matrix<const float> left{frame.at<const float>(is_float ? p_.x.slot : x_) + row * p_.steps, rows, p_.steps,
                                   p_.steps, 1};
    const int64_t offset = row * p_.columns + column;
    float* const to = frame.at<float>(is_float ? p_.result.slot : sums_) + offset;
    GemmEpilogue<float> epilogue;
    if (is_float) {
      if (p_.bias >= 0) epilogue.bias = frame.at<const float>(p_.bias) + column;
      if (p_.residual >= 0) epilogue.residual = frame.at<const float>(p_.residual) + offset;
      epilogue.relu = p_.relu;
    }
    panels.multiply(left, packed, {to, rows, count, p_.columns, 1}, 0, pieces_of(count, gemm_tiles<float>().columns),
                    false, epilogue);
    if (is_float) return;
    for (int64_t i = 0; i < rows; ++i) p_.finish(frame, to + i * p_.columns, row + i, column, count);
  }

  QuantizedProduct p_;
  BlockPiece piece_;
  int64_t together_ = 0;  // columns that a thread unpacks at a time
  int64_t scratch_ = 0;  // elements of a thread's buffer for unpacked weights, and of its panels
  Slot scratch_slot_ = -1, x_ = -1, sums_ = -1;
};

// ---- bfloat16 panels

using BFloat16Tiles = ConvolutionTiles<BFloat16, BFloat16>;

class BFloat16Blocks final : public Kernel {
 public:
  BFloat16Blocks(Lowering& lowering, const QuantizedProduct& product, const BFloat16Tiles& tiles)
      : p_(product), tiles_(tiles), panel_(tiles.columns * product.steps) {
    // A thread multiplies its rows by several panels at a time, because it would otherwise wait for the rows.
    const int64_t threads = thread_count(), panels = pieces_of(p_.columns, tiles.columns);
    const int64_t fit = std::max<int64_t>(1, bytes_of_panels / (panel_ * int64_t{sizeof(BFloat16)}));
    const int64_t together = std::clamp<int64_t>(panels / (3 * threads), 1, std::min<int64_t>(fit, 4));
    piece_.columns = together * tiles.columns;
    const int64_t across = pieces_of(p_.columns, piece_.columns);
    const int64_t down = std::clamp<int64_t>(threads / across, 1, pieces_of(p_.rows, tiles.rows));
    piece_.rows = pieces_of(pieces_of(p_.rows, down), tiles.rows) * tiles.rows;
    scratch_ = together * panel_ + tiles.columns * chunk;
    scratch_slot_ = lowering.scratch(static_cast<size_t>(threads * scratch_) * sizeof(BFloat16));
  }

  void run(Frame& frame) const override {
    parallel_phases(thread_count(), {piece_.count(p_)}, [&](int64_t, Items& items) { multiply(frame, items); });
  }
  std::string description() const override {
    return cat(piece_.text(p_), " of bfloat16", tiles_.begin ? ", with AMX" : "");
  }

 private:
  static constexpr int64_t chunk = 512;  // steps that are unpacked at once

  void multiply(Frame& frame, Items& items) const {
    const TilesInUse use(tiles_);
    BFloat16* const panels = frame.at<BFloat16>(scratch_slot_) + items.member() * scratch_;
    BFloat16* const buffer = panels + piece_.columns / tiles_.columns * panel_;
    piece_.for_items(p_, items, [&](int64_t first_row, int64_t all_rows, int64_t first, int64_t columns) {
      for (int64_t i = 0; i < columns; i += tiles_.columns)
        unpack(frame, first + i, std::min<int64_t>(tiles_.columns, columns - i), buffer,
               panels + i / tiles_.columns * panel_);
      for (int64_t row = first_row; row < first_row + all_rows;) {
        poll_run();
        const int rows = tiles_.next_rows(first_row + all_rows - row);
        const BFloat16* from[BFloat16Tiles::most_rows];
        for (int i = 0; i < rows; ++i) from[i] = frame.at<const BFloat16>(p_.x.slot) + (row + i) * p_.steps;
        for (int64_t i = 0; i < columns; i += tiles_.columns)
          multiply_tile(frame, from, panels + i / tiles_.columns * panel_, row, rows, first + i,
                        static_cast<int>(std::min<int64_t>(tiles_.columns, columns - i)));
        row += rows;
      }
    });
  }

  // Unpack `count` columns.
  void unpack(Frame& frame, int64_t column, int64_t count, BFloat16* buffer, BFloat16* panel) const {
    const PackedWeights weights = p_.packed.in(frame);
    const TileFunction round = cast_function(DType::float32, DType::bfloat16);
    alignas(64) float row[chunk];
    const void* const from = row;
    for (int64_t begin = 0; begin < p_.steps; begin += chunk) {
      const int64_t steps = std::min(chunk, p_.steps - begin);
      for (int64_t i = 0; i < count; ++i) {
        quantized_rows().unpack(weights, column + i, begin, steps, row);
        round(buffer + i * steps, &from, steps);
      }
      tiles_.pack(buffer, 1, steps, steps, static_cast<int>(count), panel + begin * tiles_.columns);
    }
  }

  void multiply_tile(Frame& frame, const BFloat16* const* from, const BFloat16* panel, int64_t row, int rows,
                     int64_t column, int count) const {
    BFloat16* to[BFloat16Tiles::most_rows];
    for (int i = 0; i < rows; ++i) to[i] = frame.at<BFloat16>(p_.result.slot) + (row + i) * p_.columns + column;
    TileEpilogue<BFloat16> epilogue;
    epilogue.relu = p_.relu;
    if (p_.bias >= 0) epilogue.bias = frame.at<const BFloat16>(p_.bias) + column;
    if (p_.residual >= 0) epilogue.residual = frame.at<std::byte>(p_.residual) - frame.at<std::byte>(p_.result.slot);
    const TileRun run{0, 0, p_.steps / BFloat16Tiles::group};
    tiles_.multiply(rows, from, &run, 1, panel, to, count, epilogue);
  }

  QuantizedProduct p_;
  BlockPiece piece_;
  const BFloat16Tiles& tiles_;
  int64_t panel_;  // elements of a panel
  int64_t scratch_ = 0;  // elements of a thread's panels, and of its buffer for unpacked weights
  Slot scratch_slot_ = -1;
};

}  // namespace

Offer bfloat16_blocks(Lowering& lowering) {
  const QuantizedProduct p(lowering);
  const BFloat16Tiles* const tiles = convolution_tiles<BFloat16, BFloat16>();
  if (p.x.dtype != DType::bfloat16) return decline(cat("computes only bfloat16, not ", p.x.dtype));
  if (!tiles) return decline("the processor has no products of bfloat16");
  if (!p.transposed) return decline("computes only with transposed weights");
  if (p.rows == 0 || p.columns == 0) return decline("an operand is empty");
  return std::make_unique<BFloat16Blocks>(lowering, p, *tiles);
}

Offer float_blocks(Lowering& lowering) {
  const QuantizedProduct p(lowering);
  if (p.rows == 0 || p.columns == 0) return decline("an operand is empty");
  return std::make_unique<FloatBlocks>(lowering, p);
}

}  // namespace mpsgraph::cpu
