// Running sums and products along a row, and what a row comes to, in vectors, once per vector set.
//
// What is held between elements is double for floats, and the element itself for others. Products only of float32: of
// double the order of multiplications says what overflows.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mpsgraph::cpu {

template <class T>
struct RowScan {
  using State = std::conditional_t<std::is_same_v<T, float>, double, T>;
  // y[i] = start and x[0 .. i], exclusive without x[i], reverse from the end on. y may be x.
  void (*running)(State start, const T* x, int64_t n, bool exclusive, bool reverse, T* y);
  State (*total)(const T* x, int64_t n);
};

struct RowScans {
  RowScan<float> sum_of_floats, product_of_floats;
  RowScan<double> sum_of_doubles;
  RowScan<uint32_t> sum_of_uint32;
  RowScan<uint64_t> sum_of_uint64;
};

namespace avx2 {
extern const RowScans row_scans;
}
namespace avx512 {
extern const RowScans row_scans;
}

}  // namespace mpsgraph::cpu
