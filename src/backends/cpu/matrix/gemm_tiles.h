// The GEMM micro-kernel for float and double, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// A register-blocked tile of the result with `rows` rows and `columns` columns, which are two vectors.
template <class T>
struct GemmTiles {
  int rows, columns;
  // Compute tile = a·b, or tile += a·b, with packed operands. Each step along the inner dimension reads `rows` elements
  // of a and `columns` elements of b.
  void (*multiply)(int64_t steps, const T* a, const T* b, T* tile, int64_t row_stride, bool accumulate);
  // Pack packed[step][i] = from[i * stride + step * step_stride] for all rows i of a tile (pack_rows) or all columns i
  // (pack_columns). One of the strides must be 1.
  void (*pack_rows)(const T* from, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
  void (*pack_columns)(const T* from, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
};

constexpr int most_gemm_rows = 8, most_gemm_columns = 32;  // maximum tile size of any instruction set

namespace baseline {
extern const GemmTiles<float> gemm_tiles_float;
extern const GemmTiles<double> gemm_tiles_double;
}  // namespace baseline
namespace avx2 {
extern const GemmTiles<float> gemm_tiles_float;
extern const GemmTiles<double> gemm_tiles_double;
}  // namespace avx2
namespace avx512 {
extern const GemmTiles<float> gemm_tiles_float;
extern const GemmTiles<double> gemm_tiles_double;
}  // namespace avx512

}  // namespace mpsgraph::cpu
