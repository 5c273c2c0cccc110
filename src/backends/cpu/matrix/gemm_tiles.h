// The GEMM micro-kernel for float and double, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// A register-blocked tile of the result: `rows` by `columns`, which is two vectors wide.
template <class T>
struct GemmTiles {
  int rows, columns;
  // tile = a·b, or tile += a·b, with packed operands: each step reads `rows` elements of a and `columns` of b.
  void (*multiply)(int64_t steps, const T* a, const T* b, T* tile, int64_t row_stride, bool accumulate);
  // packed[step][i] = from[i * stride + step * step_stride] for all rows i of a tile (or all columns); one stride is 1.
  void (*pack_rows)(const T* from, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
  void (*pack_columns)(const T* from, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
};

constexpr int most_gemm_rows = 8, most_gemm_columns = 32;  // over all instruction sets

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
