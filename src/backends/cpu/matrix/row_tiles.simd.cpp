// Loops of row_tiles.h.
//
// Rows of a large matrix are far apart, so a walk down a column touches a new page per row. weighted_sum() therefore
// takes a few rows at a time, and walks along them while their pages stay in the translation buffer; the sums, which
// are as long as a row, stay in the nearest cache.
#include "backends/cpu/matrix/row_tiles.h"

#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t width = lanes<float>;
constexpr int columns = 4;  // vectors of a row that are summed together
constexpr int64_t rows_at_once = 8;

template <class T>
void add_rows(float* sums, const float* factors, const T* rows, int64_t stride, int64_t count, int64_t n, bool onto) {
  int64_t j = 0;
  for (; j + columns * width <= n; j += columns * width) {
    Floats even[columns], odd[columns] = {};
    for (int c = 0; c < columns; ++c) even[c] = onto ? load(sums + j + c * width) : Floats{};
    int64_t i = 0;
    for (; i + 2 <= count; i += 2)
      for (int c = 0; c < columns; ++c) {
        even[c] = multiply_add(load(rows + i * stride + j + c * width), splat(factors[i]), even[c]);
        odd[c] = multiply_add(load(rows + (i + 1) * stride + j + c * width), splat(factors[i + 1]), odd[c]);
      }
    if (i < count)
      for (int c = 0; c < columns; ++c)
        even[c] = multiply_add(load(rows + i * stride + j + c * width), splat(factors[i]), even[c]);
    for (int c = 0; c < columns; ++c) store(sums + j + c * width, even[c] + odd[c]);
  }
  const auto rest = [&](int64_t at, auto... left) {
    Floats sum = onto ? load(sums + at, left...) : Floats{};
    for (int64_t i = 0; i < count; ++i)
      sum = multiply_add(load(rows + i * stride + at, left...), splat(factors[i]), sum);
    store(sums + at, sum, left...);
  };
  for (; j + width <= n; j += width) rest(j);
  if (j < n) rest(j, n - j);
}

template <class T>
void weighted_sum(float* sums, const float* factors, const T* rows, int64_t stride, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; i += rows_at_once)
    add_rows(sums, factors + i, rows + i * stride, stride, i + rows_at_once <= count ? rows_at_once : count - i, n,
             i > 0);
}

template <class T>
float dot(const T* row, const float* x, int64_t n) {
  constexpr int chains = 4;
  constexpr int64_t ahead = 2048 / sizeof(T);  // the hardware prefetcher stops at the end of a page
  Floats sums[chains] = {};
  int64_t i = 0;
  for (; i + chains * width <= n; i += chains * width) {
    for (int64_t line = 0; line < chains * width; line += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(row + i + ahead + line);
    for (int c = 0; c < chains; ++c)
      sums[c] = multiply_add(load(row + i + c * width), load(x + i + c * width), sums[c]);
  }
  for (; i + width <= n; i += width) sums[0] = multiply_add(load(row + i), load(x + i), sums[0]);
  if (i < n) sums[1] = multiply_add(load(row + i, n - i), load(x + i, n - i), sums[1]);
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class T>
constexpr RowLoops<T> loops{weighted_sum<T>, dot<T>};

}  // namespace

constinit const RowTiles row_tiles{loops<float>, loops<Half>, loops<BFloat16>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
