// Loops of row_tiles.h.
//
// Rows of a large matrix are far apart, so a walk down a column touches a new page per row. weighted_sum() therefore
// takes a few rows at a time, and walks along them while their pages stay in the translation buffer; the sums, which
// are as long as a row, stay in the nearest cache. dots() takes a few rows at a time, too: the hardware prefetcher
// stops at the end of a page, so a walk along a single row would wait at each page. Software prefetches instead took
// longer on all processors measured.
#include "backends/cpu/matrix/row_tiles.h"

#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t width = lanes<float>;
constexpr int columns = 4;  // vectors of a row that are summed together
constexpr int64_t rows_at_once = 8;  // in weighted_sum()
constexpr int streams = 4, chains = 2;  // in dots()

template <class T>
constexpr bool is_byte = sizeof(T) == 1;

// The elements from `from` on as floats: a whole vector, or the first n.
template <class T>
[[gnu::always_inline]] inline Floats floats_at(const T* from) {
  if constexpr (!is_byte<T>) {
    return load(from);
  } else {
#if MPSGRAPH_VECTOR_BYTES == 64  // g++ 12 converts vectors of bytes in many instructions
    const auto bytes = load_as<__m128i>(from);
    return to_float((Ints)(std::is_signed_v<T> ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes)));
#elif MPSGRAPH_VECTOR_BYTES == 32
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return to_float((Ints)(std::is_signed_v<T> ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes)));
#else
    return __builtin_convertvector(load_as<Vector<T, width>>(from), Floats);
#endif
  }
}
template <class T>
inline Floats floats_at(const T* from, int64_t n) {
  if constexpr (!is_byte<T>) {
    return load(from, n);
  } else {
    T there[width] = {};
    std::memcpy(there, from, static_cast<size_t>(n));
    return floats_at(there);
  }
}

template <class T>
void add_rows(float* sums, const float* factors, const T* rows, int64_t step, int64_t stride, int64_t count, int64_t n,
              bool onto) {
  int64_t j = 0;
  for (; j + columns * width <= n; j += columns * width) {
    Floats even[columns], odd[columns] = {};
    for (int c = 0; c < columns; ++c) even[c] = onto ? load(sums + j + c * width) : Floats{};
    int64_t i = 0;
    for (; i + 2 <= count; i += 2)
      for (int c = 0; c < columns; ++c) {
        even[c] = multiply_add(floats_at(rows + i * step * stride + j + c * width), splat(factors[i * step]), even[c]);
        odd[c] = multiply_add(floats_at(rows + (i + 1) * step * stride + j + c * width), splat(factors[(i + 1) * step]),
                              odd[c]);
      }
    if (i < count)
      for (int c = 0; c < columns; ++c)
        even[c] = multiply_add(floats_at(rows + i * step * stride + j + c * width), splat(factors[i * step]), even[c]);
    for (int c = 0; c < columns; ++c) store(sums + j + c * width, even[c] + odd[c]);
  }
  const auto rest = [&](int64_t at, auto... left) {
    Floats sum = onto ? load(sums + at, left...) : Floats{};
    for (int64_t i = 0; i < count; ++i)
      sum = multiply_add(floats_at(rows + i * step * stride + at, left...), splat(factors[i * step]), sum);
    store(sums + at, sum, left...);
  };
  for (; j + width <= n; j += width) rest(j);
  if (j < n) rest(j, n - j);
}

template <class T>
void weighted_sum(float* sums, const float* factors, const void* from, int64_t stride, int64_t count, int64_t n) {
  const T* const rows = static_cast<const T*>(from);
  const int64_t step = count / rows_at_once;
  for (int64_t i = 0; i < step; ++i)
    add_rows(sums, factors + i, rows + i * stride, step, stride, rows_at_once, n, i > 0);
  const int64_t done = step * rows_at_once;
  if (done < count || count == 0)
    add_rows(sums, factors + done, rows + done * stride, 1, stride, count - done, n, done > 0);
}

template <class T, int rows>
void dots_of(float* sums, const T* from, const float* x, int64_t step, int64_t n) {
  Floats totals[rows][chains] = {};
  const auto add = [&](int chain, int64_t i, auto... left) {
    const Floats factor = load(x + i, left...);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      totals[r][chain] = multiply_add(floats_at(from + r * step * n + i, left...), factor, totals[r][chain]);
  };
  int64_t i = 0;
  for (; i + chains * width <= n; i += chains * width) {
#pragma GCC unroll 2
    for (int c = 0; c < chains; ++c) add(c, i + c * width);
  }
  if (i + width <= n) add(0, i), i += width;
  if (i < n) add(1, i, n - i);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) sums[r * step] = sum_of(totals[r][0] + totals[r][1]);
}

template <class T>
void dots(float* sums, const void* from, const float* x, int64_t count, int64_t n) {
  const T* const rows = static_cast<const T*>(from);
  const int64_t step = count / streams;
  for (int64_t r = 0; r < step; ++r) dots_of<T, streams>(sums + r, rows + r * n, x, step, n);
  for (int64_t r = step * streams; r < count; ++r) dots_of<T, 1>(sums + r, rows + r * n, x, 1, n);
}

template <class T>
constexpr RowLoops loops{weighted_sum<T>, dots<T>};

}  // namespace

constinit const RowTiles row_tiles{loops<float>, loops<Half>, loops<BFloat16>, loops<int8_t>, loops<uint8_t>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
