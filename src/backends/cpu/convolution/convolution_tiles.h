// Micro-kernels of convolutions that run as one matmul per filter tap (convolution_taps.h), compiled for each
// instruction set.
//
// A tile is a block of a few rows by `columns` columns of a result, held in float32 registers while all taps are
// summed. Rows are addressed through pointers, so there is no im2col; the other operand is packed into panels
// [step][columns][group]. The inner dimension advances in steps of `group` factors, four bytes of a row: one float32,
// or two bfloat16 that one instruction multiplies and accumulates. If that instruction is slower than two float32
// multiply-adds, bfloat16 is widened when it is loaded. With AMX, a tile has 32 rows (amx_products.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/half_types.h"

namespace mpsgraph::cpu {

// The number of vectors in a row of a tile.
#if defined(__aarch64__)
constexpr int vectors_of_tile = 4;
#else
constexpr int vectors_of_tile = 2;
#endif

// A run of steps that are contiguous in a panel and in a row, starting `delta` elements after the row's pointer. For
// 8-bit weights, a step is narrow if, for each column, the magnitudes of the first two weights sum to at most 128, and
// so do the magnitudes of the last two weights.
struct TileRun {
  int64_t delta, panel, steps;
  bool narrow = false;
};

// The epilogue applied to a sum before it is stored.
template <class S>
struct TileEpilogue {
  const S* bias = nullptr;  // bias of the panel's columns
  ptrdiff_t residual = 0;  // byte offset from a result to its residual; 0 if there is no residual
  bool relu = false;
};

// The part of the micro-kernel interface that does not depend on the element type.
struct TileRows {
  int rows;  // maximum rows per tile
  int whole_rows = 1;  // a tile takes as long as if its row count were rounded up to a multiple of this
  // Called by each thread before and after multiplying; may be null.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;

  // Return the number of rows in the next tile: as many as possible, except that the last two tiles divide the
  // remaining rows about evenly.
  int next_rows(int64_t left) const {
    if (left >= 2 * rows) return rows;  // avoids divisions, which take as long as a short matmul
    const int64_t tiles = (left + rows - 1) / rows, even = (left + tiles - 1) / tiles;
    return static_cast<int>(std::min(left, (even + whole_rows - 1) / whole_rows * whole_rows));
  }
};

// Calls the micro-kernel's begin() and end() on the current thread, which may use the micro-kernel during this object's
// lifetime.
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

// S is the element type in memory. F is the type of the factors, that is, the type in which elements are multiplied,
// either S or float.
template <class S, class F>
struct ConvolutionTiles : TileRows {
  static constexpr int most_rows = 32;
  static constexpr int group = 4 / static_cast<int>(sizeof(F));
  int columns;  // columns per tile

  // Compute out[r][c] = epilogue(sum over runs, and over the steps s of each run, of rows[r][delta + s] * panel[s][c])
  // for r < count and c < width.
  void (*multiply)(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                   S* const* out, int width, const TileEpilogue<S>& epilogue);
  // The two stages of multiply(). add() computes sums[r][c] += sum over steps s of rows[r][s] * panel[s][c]; finish()
  // computes out[c] = epilogue(sums[c]) for one row.
  void (*add)(int count, const F* const* rows, int64_t steps, const F* panel, float* const* sums);
  void (*finish)(const float* sums, S* out, int width, const TileEpilogue<S>& epilogue);
  // Compute sums[r][c] = sum over s < steps of rows[r * row_stride + s] * matrix[s * matrix_stride + c] for all columns
  // c of a tile, without packing the matrix (float32 only, otherwise null). `first` means that the matrix has not been
  // read yet.
  void (*multiply_plain)(int count, const F* rows, int64_t row_stride, int64_t steps, const F* matrix,
                         int64_t matrix_stride, bool first, float* sums);
  // Compute out[c] = epilogue(sum of `parts` partial sums, `stride` elements apart) for all columns c of a tile.
  void (*finish_parts)(const float* sums, int64_t parts, int64_t stride, S* out, const TileEpilogue<S>& epilogue);
  // For each i < count, compute the vector (0 if `fresh`, otherwise sums[i]) + sum over r < row_count of rows[r][(first
  // + i) * group] * panel[r], where each term multiplies one step. Store it in out[i * out_stride] if `out` is not
  // null, otherwise in sums[i]. If `sums` is null, accumulate into `out`.
  void (*multiply_transposed)(int count, const F* const* rows, int64_t first, int64_t row_count, const F* panel,
                              float* sums, bool fresh, S* out, int64_t out_stride);
  // Pack a panel: panel[k / group][c][k % group] = matrix[k * row_stride + c * column_stride] for k < rows and c <
  // width, and zero elsewhere.
  void (*pack)(const S* matrix, int64_t row_stride, int64_t column_stride, int64_t rows, int width, F* panel);
  // Pack the panel of multiply_transposed(): panel[r][c][g] = rows[r][g * row_stride + c] for g < valid[r], otherwise
  // zero. For AMX, the order is panel[r / 16][c][r % 16][g], and the last group of sixteen rows is padded with zeros.
  void (*gather)(const S* const* rows, const int* valid, int64_t row_stride, int64_t count, int width, F* panel);
  // Widen n elements: to[i] = from[i]. Used if factors are wider than elements.
  void (*widen)(const S* from, int64_t n, float* to);
  // Store a panel of sums: matrix[k * row_stride + c * column_stride] = sums[k][c] for k < rows and c < width.
  void (*unpack)(const float* sums, int64_t rows, int width, S* matrix, int64_t row_stride, int64_t column_stride);
};

// Prefetch every used cache line of a panel step, several steps ahead. With few matrix rows, each step takes little
// time, and the kernel is bound by how fast weights arrive from an outer cache or memory.
template <int rows, int64_t step, int64_t used = step, class F>
[[gnu::always_inline]] inline void ask_for_step(const F* panel) {
  constexpr int64_t ahead = rows <= 4 ? 32 : 8, line = 64 / sizeof(F);
  for (int64_t i = 0; i < used; i += line) __builtin_prefetch(panel + ahead * step + i);
}

// Return the micro-kernels, or null if the processor has no instructions for these types, or if its vectors are too
// short to be useful.
template <class S, class F>
const ConvolutionTiles<S, F>* convolution_tiles();
template <>
const ConvolutionTiles<float, float>* convolution_tiles();
template <>
const ConvolutionTiles<BFloat16, BFloat16>* convolution_tiles();
template <>
const ConvolutionTiles<BFloat16, float>* convolution_tiles();
// Return the tiles with the fewest columns: on x86 those of AVX2, if there are tiles at all, and on Arm tiles of two
// vectors.
const ConvolutionTiles<float, float>* narrow_convolution_tiles();
// Return tiles for panels of which at most half of the columns are used: one vector. On x86, they have more rows.
// Only their functions multiply() and pack() may be called. Call this only if there are tiles.
const ConvolutionTiles<float, float>& one_vector_tiles();

namespace neon {
const ConvolutionTiles<float, float>& convolution_tiles();
const ConvolutionTiles<float, float>& two_vector_tiles();
}  // namespace neon
namespace neon_bf16 {
const ConvolutionTiles<BFloat16, BFloat16>& convolution_tiles();
}
namespace neon_widened {
const ConvolutionTiles<BFloat16, float>& convolution_tiles();
}
namespace avx2 {
const ConvolutionTiles<float, float>& convolution_tiles();
const ConvolutionTiles<float, float>& one_vector_tiles();
}  // namespace avx2
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
