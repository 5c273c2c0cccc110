// Micro-kernels for matmul of 32- and 64-bit integers, compiled for each instruction set. Micro-kernels for unsigned
// types also multiply signed operands, because the results are bitwise the same in two's complement.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

template <class T>
struct WholeTiles {
  int rows, columns;  // maximum rows and columns of a tile
  // Compute out[r * out_stride + c] = sum over k < terms of a[r * a_stride + k] * b[k * b_stride + c] for r < count and
  // c < width. All `columns` of b are read.
  void (*multiply)(int count, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t terms, T* out,
                   int64_t out_stride, int width);
};

MPSGRAPH_VECTOR_TABLE(WholeTiles<uint32_t>, tiles_of_32_bits);
MPSGRAPH_VECTOR_TABLE(WholeTiles<uint64_t>, tiles_of_64_bits);

}  // namespace mpsgraph::cpu
