// The inner loops of a convolution that runs as one matrix product a tap (convolution_taps.h), for each vector set.
//
// A tile is a few rows by `columns` columns of a result, held in registers while all taps are summed. Rows are found by
// pointers, so that nothing is unfolded; weights come as panels [step][columns]. A step is four bytes of a row: one
// float32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsgraph::cpu {

// Steps that lie beside one another in a row, from `delta` steps behind its pointer on, and in a panel.
struct TileRun {
  int64_t delta, panel, steps;
};

// What happens to a sum before it is stored.
struct TileEpilogue {
  const float* bias = nullptr;  // of these columns
  ptrdiff_t residual = 0;  // from a result's element to what is added to it, in bytes; 0: nothing
  bool relu = false;
};

struct ConvolutionTiles {
  static constexpr int most_rows = 12;
  int columns;  // of a tile
  int rows;  // at most

  // out[r][0, width) = epilogue(sum over runs and their steps of rows[r][delta + s] * panel[s]).
  void (*multiply)(int count, const float* const* rows, const TileRun* runs, int64_t run_count, const float* panel,
                   float* const* out, int width, const TileEpilogue& epilogue);
  // sums[i] += sum over r of rows[r][delta + i] * panel[r], for `count` rows of sums.
  void (*multiply_transposed)(int count, const float* const* rows, int64_t delta, int64_t row_count, const float* panel,
                              float* sums);
  // panel[k][c] = matrix[k * row_stride + c * column_stride], zero beyond `width`.
  void (*pack)(const float* matrix, int64_t row_stride, int64_t column_stride, int64_t rows, int width, float* panel);
  // The other way round.
  void (*unpack)(const float* panel, int64_t rows, int width, float* matrix, int64_t row_stride, int64_t column_stride);
};

// Null where vectors are too short for it to be of use.
const ConvolutionTiles* convolution_tiles();

namespace avx2 {
const ConvolutionTiles& convolution_tiles();
}
namespace avx512 {
const ConvolutionTiles& convolution_tiles();
}

}  // namespace mpsgraph::cpu
