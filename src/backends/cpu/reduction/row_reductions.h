// What rows and columns of numbers come to, in vectors, once per vector set that compares 64 bits: extrema and where
// they stand, and sums, of integers as unsigned ones, which wrap.
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

namespace avx2 {
extern const RowReductions row_reductions;
}
namespace avx512 {
extern const RowReductions row_reductions;
}
// Null on a processor without.
const RowReductions* row_reductions();

}  // namespace mpsgraph::cpu
