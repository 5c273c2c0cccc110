// The inner loops of a convolution that runs as one matrix product a tap (convolution_taps.h), for each vector set.
//
// A tile is a few rows by `columns` columns of a result, held in float32 registers while all taps are summed. Rows are
// found by pointers, so that nothing is unfolded; the other factor comes as panels [step][columns][group]. A step is
// four bytes of a row, `group` elements: one float32, or the pair of bfloat16 that one instruction multiplies and adds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dispatch.h"

namespace mpsgraph::cpu {

// Steps that lie beside one another in a row, from `delta` elements behind its pointer on, and in a panel.
struct TileRun {
  int64_t delta, panel, steps;
};

// What happens to a sum before it is stored.
template <class S>
struct TileEpilogue {
  const S* bias = nullptr;  // of these columns
  ptrdiff_t residual = 0;  // from a result's element to what is added to it, in bytes; 0: nothing
  bool relu = false;
};

template <class S>
struct ConvolutionTiles {
  static constexpr int most_rows = 12;
  static constexpr int group = 4 / static_cast<int>(sizeof(S));
  int columns;  // of a tile
  int rows;  // at most

  // out[r][0, width) = epilogue(sum over runs and their steps of rows[r][delta + s] * panel[s]).
  void (*multiply)(int count, const S* const* rows, const TileRun* runs, int64_t run_count, const S* panel,
                   S* const* out, int width, const TileEpilogue<S>& epilogue);
  // The same in two: sums[r][0, columns) += sum over s of rows[r][s] * panel[s]; out[r] = epilogue(sums[r]).
  void (*add)(int count, const S* const* rows, int64_t steps, const S* panel, float* const* sums);
  void (*finish)(const float* sums, S* out, int width, const TileEpilogue<S>& epilogue);
  // sums[i] += sum over r of step rows[r][(first + i) * group] * panel[r], for `count` rows of sums.
  void (*multiply_transposed)(int count, const S* const* rows, int64_t first, int64_t row_count, const S* panel,
                              float* sums);
  // panel[k / group][c][k % group] = matrix[k * row_stride + c * column_stride], zero beyond `width` and `rows`.
  void (*pack)(const S* matrix, int64_t row_stride, int64_t column_stride, int64_t rows, int width, S* panel);
  // matrix[k * row_stride + c * column_stride] = sums[k][c].
  void (*unpack)(const float* sums, int64_t rows, int width, S* matrix, int64_t row_stride, int64_t column_stride);
};

// Null where vectors are too short for it to be of use, or cannot multiply such elements.
template <class S>
const ConvolutionTiles<S>* convolution_tiles();

namespace avx2 {
const ConvolutionTiles<float>& convolution_tiles();
}
namespace avx512 {
const ConvolutionTiles<float>& convolution_tiles();
}
namespace avx512_bf16 {
const ConvolutionTiles<BFloat16>& convolution_tiles();
}

}  // namespace mpsgraph::cpu
