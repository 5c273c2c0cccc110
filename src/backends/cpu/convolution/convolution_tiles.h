// The micro-kernels of a convolution that runs as one matrix product per tap (convolution_taps.h), for each vector set.
//
// A tile is a few rows by `columns` columns of a result, held in float32 registers while all taps are summed. Rows are
// found by pointers, so that there is no im2col; the other factor is packed into panels [step][columns][group]. A step
// is four bytes of a row, `group` factors: one float32, or the pair of bfloat16 that one instruction multiplies and
// adds. Where that instruction is slower than two of float32, bfloat16 is widened on its way to the factors. AMX's
// registers hold tiles of 32 rows (amx_products.inc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/half_types.h"

namespace mpsgraph::cpu {

// Steps that are contiguous in a row, from `delta` elements behind its pointer on, and in a panel. Of bytes they are
// narrow when the magnitudes of a column's first two weights in a step, and of its last two, are 128 together at most.
struct TileRun {
  int64_t delta, panel, steps;
  bool narrow = false;
};

// The epilogue: what happens to a sum before it is stored.
template <class S>
struct TileEpilogue {
  const S* bias = nullptr;  // of these columns
  ptrdiff_t residual = 0;  // from a result's element to what is added to it, in bytes; 0: nothing
  bool relu = false;
};

// What tiles of any element have.
struct TileRows {
  int rows;  // of a tile, at most
  int whole_rows = 1;  // as many take as long as one
  // What a thread calls before and after products; null: nothing.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;

  // How many of the rows that are left the next tile takes: all it can, and the last two about as many as each other.
  int next_rows(int64_t left) const {
    if (left >= 2 * rows) return rows;  // divisions would take as long as a short product
    const int64_t tiles = (left + rows - 1) / rows, even = (left + tiles - 1) / tiles;
    return static_cast<int>(std::min(left, (even + whole_rows - 1) / whole_rows * whole_rows));
  }
};

// While it lives its thread may multiply.
class TilesInUse {
 public:
  explicit TilesInUse(const TileRows& tiles) : end_(tiles.end) {
    if (tiles.begin) tiles.begin();
  }
  ~TilesInUse() {
    if (end_) end_();
  }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;

 private:
  void (*end_)();
};

// S: elements in memory; F: factors, the same or float.
template <class S, class F>
struct ConvolutionTiles : TileRows {
  static constexpr int most_rows = 32;
  static constexpr int group = 4 / static_cast<int>(sizeof(F));
  int columns;  // of a tile

  // out[r][0, width) = epilogue(sum over runs and their steps of rows[r][delta + s] * panel[s]).
  void (*multiply)(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                   S* const* out, int width, const TileEpilogue<S>& epilogue);
  // The same in two: sums[r][0, columns) += sum over s of rows[r][s] * panel[s]; out[r] = epilogue(sums[r]).
  void (*add)(int count, const F* const* rows, int64_t steps, const F* panel, float* const* sums);
  void (*finish)(const float* sums, S* out, int width, const TileEpilogue<S>& epilogue);
  // sums[r][0, columns) = sum over s of rows[r * row_stride + s] * matrix[s * matrix_stride], a matrix that is not
  // packed (float32 only, else null). `first`: nothing has read it before.
  void (*multiply_plain)(int count, const F* rows, int64_t row_stride, int64_t steps, const F* matrix,
                         int64_t matrix_stride, bool first, float* sums);
  // out[0, columns) = epilogue(the sum of `parts` vectors of sums, `stride` apart).
  void (*finish_parts)(const float* sums, int64_t parts, int64_t stride, S* out, const TileEpilogue<S>& epilogue);
  // For `count` rows i: sums[i] (zero, if `fresh`) + sum over r of step rows[r][(first + i) * group] * panel[r], stored
  // to sums[i], or, if there is an `out`, to out[i * out_stride]. Without `sums` it is `out` that is added to.
  void (*multiply_transposed)(int count, const F* const* rows, int64_t first, int64_t row_count, const F* panel,
                              float* sums, bool fresh, S* out, int64_t out_stride);
  // panel[k / group][c][k % group] = matrix[k * row_stride + c * column_stride], zero beyond `width` and `rows`.
  void (*pack)(const S* matrix, int64_t row_stride, int64_t column_stride, int64_t rows, int width, F* panel);
  // The panel of multiply_transposed: panel[r][c][g] = rows[r][g * row_stride + c], g < valid[r], else zero; for AMX
  // panel[r / 16][c][r % 16][g], zero behind the last row of sixteen.
  void (*gather)(const S* const* rows, const int* valid, int64_t row_stride, int64_t count, int width, F* panel);
  // to[i] = from[i], where factors are wider.
  void (*widen)(const S* from, int64_t n, float* to);
  // matrix[k * row_stride + c * column_stride] = sums[k][c].
  void (*unpack)(const float* sums, int64_t rows, int width, S* matrix, int64_t row_stride, int64_t column_stride);
};

// Prefetches every cache line of a step of a panel that is used, some steps ahead. With few rows steps are short,
// and the weights come as fast as an outer cache or memory can give them.
template <int rows, int64_t step, int64_t used = step, class F>
[[gnu::always_inline]] inline void ask_for_step(const F* panel) {
  constexpr int64_t ahead = rows <= 4 ? 32 : 8, line = 64 / sizeof(F);
  for (int64_t i = 0; i < used; i += line) __builtin_prefetch(panel + ahead * step + i);
}

// Null where vectors are too short for it to be of use, or cannot multiply such elements.
template <class S, class F>
const ConvolutionTiles<S, F>* convolution_tiles();
template <>
const ConvolutionTiles<float, float>* convolution_tiles();
template <>
const ConvolutionTiles<BFloat16, BFloat16>* convolution_tiles();
template <>
const ConvolutionTiles<BFloat16, float>* convolution_tiles();

namespace avx2 {
const ConvolutionTiles<float, float>& convolution_tiles();
}
namespace avx512 {
const ConvolutionTiles<float, float>& convolution_tiles();
}
namespace avx512_bf16 {
const ConvolutionTiles<BFloat16, BFloat16>& convolution_tiles();
}
namespace amx_bf16 {
const ConvolutionTiles<BFloat16, BFloat16>& register_tiles();
}
namespace avx512_rounding {
const ConvolutionTiles<BFloat16, float>& convolution_tiles();
}
namespace avx512_bf16_widened {
const ConvolutionTiles<BFloat16, float>& convolution_tiles();
}

}  // namespace mpsgraph::cpu
