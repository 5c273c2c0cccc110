// Vectorized cumulative sums and products along a row, and totals of a row, compiled for each instruction set.
//
// The state between elements is double for float32, and the element type for all other types. Products exist only for
// float32: for double, whether a product overflows would depend on the order of multiplication.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

template <class T>
struct RowScan {
  using State = std::conditional_t<std::is_same_v<T, float>, double, T>;
  // Set y[i] to `start` combined with x[0], ..., x[i] or, if `exclusive` is set, with x[0], ..., x[i - 1]. With
  // `reverse`, the scan runs from the end of the row. y may be x.
  void (*running)(State start, const T* x, int64_t n, bool exclusive, bool reverse, T* y);
  State (*total)(const T* x, int64_t n);
};

struct RowScans {
  RowScan<float> sum_of_floats, product_of_floats;
  RowScan<double> sum_of_doubles;
  RowScan<uint32_t> sum_of_uint32;
  RowScan<uint64_t> sum_of_uint64;
};

MPSGRAPH_OPTIONAL_TABLE(RowScans, row_scans);

}  // namespace mpsgraph::cpu
