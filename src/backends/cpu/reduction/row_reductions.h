// Vectorized minima, maxima, their positions, and sums of rows and columns, compiled for each instruction set with
// 64-bit comparisons. Integer sums use unsigned types, because these wrap.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

template <class T>
struct RowExtremum {
  // The extremum of all elements that are not NaN. If all elements are NaN, the maximum is -inf or the lowest value,
  // and the minimum is +inf or the highest value.
  T value;
  bool has_nan;
};

template <class T>
struct RowExtremaOf {
  RowExtremum<T> (*greatest)(const T* x, int64_t n);
  RowExtremum<T> (*least)(const T* x, int64_t n);
  int64_t (*first)(const T* x, int64_t n, T value);  // returns the first position of `value`, or n if it does not occur
  // Reduce n rows of `width` numbers each, `stride` apart, into `best`, the extremum of each column. If `propagates` is
  // set, a NaN replaces other values in `best`; otherwise, other values replace a NaN.
  using Columns = void (*)(const T* rows, int64_t stride, int64_t n, int64_t width, bool propagates, T* best);
  Columns greatest_of_columns, least_of_columns;
};

template <class T>
struct NumberSums {
  T (*of_row)(const T* x, int64_t n);
  void (*add_columns)(const T* rows, int64_t stride, int64_t n, int64_t width, T* sums);
};

struct RowReductions {
  RowExtremaOf<float> floats;
  RowExtremaOf<double> doubles;
  RowExtremaOf<int32_t> int32s;
  RowExtremaOf<int64_t> int64s;
  NumberSums<uint8_t> sums8;
  NumberSums<uint16_t> sums16;
  NumberSums<uint32_t> sums32;
  NumberSums<uint64_t> sums64;
  NumberSums<double> sums_of_doubles;

  template <class T>
  const RowExtremaOf<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return floats;
    else if constexpr (std::is_same_v<T, double>)
      return doubles;
    else if constexpr (std::is_same_v<T, int32_t>)
      return int32s;
    else
      return int64s;
  }
  template <class T>
  const NumberSums<T>& sums() const {
    if constexpr (std::is_same_v<T, double>)
      return sums_of_doubles;
    else if constexpr (sizeof(T) == 1)
      return sums8;
    else if constexpr (sizeof(T) == 2)
      return sums16;
    else if constexpr (sizeof(T) == 4)
      return sums32;
    else
      return sums64;
  }
};
template <class T>
constexpr bool has_row_extrema =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
template <class T>
constexpr bool has_number_sums = (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) || std::is_same_v<T, double>;

MPSGRAPH_OPTIONAL_TABLE(RowReductions, row_reductions);

}  // namespace mpsgraph::cpu
