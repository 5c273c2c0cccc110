// The GEMM micro-kernel for float and double, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// The epilogue of a product. A type without functions, because this header is compiled for each instruction set.
template <class T>
struct GemmEpilogue {
  const T* bias = nullptr;  // one element for each column of the product, or null
  const T* residual = nullptr;  // a matrix with the strides of the product, or null
  bool relu = false;
};

// A register-blocked tile of the result with `rows` rows and `columns` columns.
template <class T>
struct GemmTiles {
  int rows, columns, lanes;  // a vector has `lanes` columns
  int64_t steps;  // maximum inner dimension of a chunk, so that a panel and the rows of a tile fit in L1
  // Compute tile = a·b, or tile += a·b, for the first `count` rows and the columns of the first `vectors` vectors. b is
  // packed: each step along the inner dimension reads `columns` elements. a is packed, with row stride 1 and step
  // stride `rows`, or is read in place; one of its strides must be 1.
  void (*multiply)(int count, int vectors, int64_t steps, const T* a, int64_t a_row_stride, int64_t a_step_stride,
                   const T* b, T* tile, int64_t row_stride, bool accumulate, const GemmEpilogue<T>& epilogue);
  // Pack packed[step][i] = from[i * stride + step * step_stride] for the `count` rows i of a tile (pack_rows) or its
  // `count` columns i (pack_columns), with zeros for missing rows or columns. One of the strides must be 1.
  void (*pack_rows)(const T* from, int64_t count, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
  void (*pack_columns)(const T* from, int64_t count, int64_t stride, int64_t step_stride, int64_t steps, T* packed);
};

// Maximum sizes of tiles and chunks of any instruction set.
constexpr int most_gemm_rows = 14, most_gemm_columns = 48;
constexpr int64_t most_gemm_steps = 256;

MPSGRAPH_VECTOR_TABLE(GemmTiles<float>, gemm_tiles_float);
MPSGRAPH_VECTOR_TABLE(GemmTiles<double>, gemm_tiles_double);

}  // namespace mpsgraph::cpu
