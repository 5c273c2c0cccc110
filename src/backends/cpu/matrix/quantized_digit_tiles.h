// Products of a few rows of floats with rows of packed weights, by dot products of bytes in AMX registers.
//
// The rows of floats are split into digits (quantized_digits.h). A register holds 64 bytes of sixteen rows of weights,
// as they lie in memory; another holds sixteen columns of digits. A column belongs to one row of floats, one digit, and
// one segment, which is the part of 64 bytes that shares a scale. Each element of the product is therefore a sum with
// one scale and one factor.
#pragma once

#include <cstdint>

#include "backends/cpu/matrix/quantized_digits.h"

namespace mpsgraph::cpu {

// Rows of floats, arranged for AMX registers. `Shape` is known when a kernel is built.
struct DigitTiles {
  static constexpr int side = 16;
  struct Shape {
    int bits = 4;
    int parts = 2;  // of the bytes of the weights, as in DigitRow
    int segments = 1;
    int rows_of_tile = 0;
    int64_t rows = 0, vectors = 0, groups = 0, tiles = 0;

    int64_t byte_count() const;
    int64_t factor_count() const;
    int64_t sum_count() const;
    int64_t scratch_count() const;  // elements of a thread's scratch memory
  } shape;

  int8_t* bytes = nullptr;  // [vector][tile][part][word of 4 bytes][column][byte]
  float* factors = nullptr;  // [vector][tile][column], each multiplied by the value of its digit
  float* sums = nullptr;  // of the elements of each group: [group][row], with sixteen rows
};

namespace amx_digits {

// Return the shape for these weights and up to 16 rows, or an empty one (rows == 0) if there are no kernels for them.
DigitTiles::Shape shape_of(const PackedWeights& weights, int64_t rows);
// Arrange the digits of row `row`. The first row of a tile clears the tile.
void arrange(const DigitTiles& x, int64_t row, const DigitRow& digits);
// Compute result[m * stride + r] = sum over i of x[m, i] * weight[first + r, i] for all rows m and r < count. The
// calling thread must have called begin().
void multiply(const PackedWeights& weights, int64_t first, int64_t count, const DigitTiles& x, float* scratch,
              float* result, int64_t stride);
void begin();
void end();

}  // namespace amx_digits
}  // namespace mpsgraph::cpu
