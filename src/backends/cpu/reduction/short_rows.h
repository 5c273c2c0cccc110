// Rows that are too short for vectors along them are turned, some thousand elements at a time, so that vectors run
// across them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mpsgraph::cpu {

constexpr int64_t short_row = 48, turned_elements = 4096, most_turned_rows = 512;
inline int64_t turned_rows(int64_t n) { return std::min(most_turned_rows, turned_elements / n); }

// turned[i * stride + r] = rows[r * row_stride + i] for r < count, i < n.
template <class T>
void turn_rows(const T* rows, int64_t row_stride, int64_t count, int64_t n, T* turned, int64_t stride) {
  constexpr int64_t at_once = 8;
  int64_t r = 0;
  for (; r + at_once <= count; r += at_once, rows += at_once * row_stride)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < at_once; ++j) turned[i * stride + r + j] = rows[j * row_stride + i];
  for (; r < count; ++r, rows += row_stride)
    for (int64_t i = 0; i < n; ++i) turned[i * stride + r] = rows[i];
}

}  // namespace mpsgraph::cpu
