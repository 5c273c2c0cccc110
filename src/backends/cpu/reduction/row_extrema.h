// The extremum of a row, where a number stands in it, and the extrema of columns, in vectors, once per vector set that
// compares 64 bits.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mpsgraph::cpu {

template <class T>
struct RowExtremum {
  T value;  // of what is a number; -inf or the least integer where nothing is, for minima the other end
  bool has_nan;
};

template <class T>
struct RowExtremaOf {
  RowExtremum<T> (*greatest)(const T* x, int64_t n);
  RowExtremum<T> (*least)(const T* x, int64_t n);
  int64_t (*first)(const T* x, int64_t n, T value);  // where it stands first; n: nowhere
  // n rows of `width` numbers, `stride` numbers apart, into the best of each column. NaN takes over what is there where
  // it propagates, else what is NaN is taken over.
  using Columns = void (*)(const T* rows, int64_t stride, int64_t n, int64_t width, bool propagates, T* best);
  Columns greatest_of_columns, least_of_columns;
};

struct RowExtrema {
  RowExtremaOf<float> floats;
  RowExtremaOf<double> doubles;
  RowExtremaOf<int32_t> int32s;
  RowExtremaOf<int64_t> int64s;

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
};
template <class T>
constexpr bool has_row_extrema =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;

namespace avx2 {
extern const RowExtrema row_extrema;
}
namespace avx512 {
extern const RowExtrema row_extrema;
}
// Null on a processor without.
const RowExtrema* row_extrema();

}  // namespace mpsgraph::cpu
