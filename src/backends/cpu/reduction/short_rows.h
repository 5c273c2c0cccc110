// Transposition of short rows, a few thousand elements at a time. Vectors along such rows would not be filled, so
// vectors run across the rows instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mpsgraph::cpu {

constexpr int64_t longest_short_row = 64, turned_elements = 4096, most_turned_rows = 512;
// Return whether a row has at most 128 bytes, that is, two of the widest vectors, and is short enough to be transposed.
inline bool is_short_row(int64_t n, size_t item_bytes) {
  return n * static_cast<int64_t>(item_bytes) <= 128 && n <= longest_short_row;
}
inline int64_t turned_rows(int64_t n) { return std::min(most_turned_rows, turned_elements / n); }

// Side length, in elements, of the square blocks that are transposed by shuffling 16-byte vectors; 1 if T is not
// supported.
template <class T>
constexpr int64_t turned_square = !std::is_arithmetic_v<T> ? 1
                                  : sizeof(T) == 4         ? 4
                                  : sizeof(T) == 8         ? 2
                                                           : 1;

// Transpose one square block: set to[i * to_distance + r] to from[r * from_distance + i] for i and r below
// turned_square.
template <class T>
inline void turn_square(const T* from, int64_t from_distance, T* to, int64_t to_distance) {
  constexpr int64_t square = turned_square<T>;
  typedef T V __attribute__((vector_size(16)));
  V v[square], w[square];
  for (int64_t r = 0; r < square; ++r) std::memcpy(&v[r], from + r * from_distance, sizeof(V));
  if constexpr (square == 2) {
    w[0] = __builtin_shufflevector(v[0], v[1], 0, 2);
    w[1] = __builtin_shufflevector(v[0], v[1], 1, 3);
  } else {
    const V low = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    const V high = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    const V next_low = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    const V next_high = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    w[0] = __builtin_shufflevector(low, next_low, 0, 1, 4, 5);
    w[1] = __builtin_shufflevector(low, next_low, 2, 3, 6, 7);
    w[2] = __builtin_shufflevector(high, next_high, 0, 1, 4, 5);
    w[3] = __builtin_shufflevector(high, next_high, 2, 3, 6, 7);
  }
  for (int64_t r = 0; r < square; ++r) std::memcpy(to + r * to_distance, &w[r], sizeof(V));
}

// Transpose `count` rows: set turned[i * stride + r] to rows[r * row_stride + i] for r below `count` and i below n.
template <class T>
void turn_rows(const T* rows, int64_t row_stride, int64_t count, int64_t n, T* turned, int64_t stride) {
  constexpr int64_t at_once = 8, square = turned_square<T>;
  int64_t r = 0;
  for (; r + at_once <= count; r += at_once, rows += at_once * row_stride) {
    int64_t i = 0;
    if constexpr (square > 1)
      for (; i + square <= n; i += square)
        for (int64_t j = 0; j < at_once; j += square)
          turn_square(rows + j * row_stride + i, row_stride, turned + i * stride + r + j, stride);
    for (; i < n; ++i)
      for (int64_t j = 0; j < at_once; ++j) turned[i * stride + r + j] = rows[j * row_stride + i];
  }
  for (; r < count; ++r, rows += row_stride)
    for (int64_t i = 0; i < n; ++i) turned[i * stride + r] = rows[i];
}

}  // namespace mpsgraph::cpu
