// Winograd transforms.
// Instruction sets: avx2, avx512.
//
// The matrices are compile-time constants, so each row becomes straight-line multiply-adds that skip the zeros.

#include <array>
#include <type_traits>
#include <utility>

#include "backends/cpu/convolution/winograd_matrices.h"
#include "backends/cpu/convolution/winograd_transforms.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

using Epilogue = TileEpilogue<float>;
constexpr int W = lanes<float>, columns = vectors_of_tile * W;

template <const auto& matrix>
constexpr int rows_of = static_cast<int>(matrix.at.size());
template <const auto& matrix>
constexpr int columns_of = static_cast<int>(matrix.at[0].size());

template <const auto& matrix, int row>
constexpr int first_of = [] {
  int i = 0;
  while (matrix.at[row][i] == 0) ++i;
  return i;
}();

template <const auto& matrix, int row, int column>
[[gnu::always_inline]] inline void add_term(Floats x, Floats& sum) {
  constexpr float factor = matrix.at[row][column];
  if constexpr (column == first_of<matrix, row>) {
    if constexpr (factor == 1)
      sum = x;
    else
      sum = factor * x;
  } else if constexpr (factor == 1) {
    sum += x;
  } else if constexpr (factor == -1) {
    sum -= x;
  } else if constexpr (factor != 0) {
    sum += factor * x;
  }
}

template <const auto& matrix, int row, int... Column>
[[gnu::always_inline]] inline Floats row_times(const Floats* x, std::integer_sequence<int, Column...>) {
  Floats sum;
  (add_term<matrix, row, Column>(x[Column], sum), ...);
  return sum;
}

// Call use(row, value) for each row of matrix * x.
template <const auto& matrix, class Use, int... Row>
[[gnu::always_inline]] inline void times(const Floats* x, const Use& use, std::integer_sequence<int, Row...>) {
  (use(Row, row_times<matrix, Row>(x, std::make_integer_sequence<int, columns_of<matrix>>{})), ...);
}
template <const auto& matrix, class Use>
[[gnu::always_inline]] inline void times(const Floats* x, const Use& use) {
  times<matrix>(x, use, std::make_integer_sequence<int, rows_of<matrix>>{});
}

// Compute the matrix product matrix * x * matrixᵀ, and call use(i, j, value) for each of its elements. read(i, j)
// returns an element of x.
template <const auto& matrix, class Read, class Use>
[[gnu::always_inline]] inline void on_both_sides(const Read& read, const Use& use) {
  constexpr int from = columns_of<matrix>, to = rows_of<matrix>;
  Floats half[to][from];
#pragma GCC unroll 1
  for (int j = 0; j < from; ++j) {
    Floats x[from];
#pragma GCC unroll 8
    for (int i = 0; i < from; ++i) x[i] = read(i, j);
    times<matrix>(x, [&](int i, Floats value) { half[i][j] = value; });
  }
#pragma GCC unroll 1
  for (int i = 0; i < to; ++i) times<matrix>(half[i], [&](int j, Floats value) { use(i, j, value); });
}

template <const auto& matrix>
void spread(const float* const* from, int64_t channels, float* to, int64_t point_stride, int64_t panel_stride) {
  constexpr int read = columns_of<matrix>, made = rows_of<matrix>;
  for (int64_t c = 0; c < channels; c += W) {
    float* out = to + c / columns * panel_stride + c % columns;
    on_both_sides<matrix>([&](int i, int j) { return load(from[i * read + j] + c); },
                          [&](int i, int j, Floats value) { store(out + (i * made + j) * point_stride, value); });
  }
}

template <const auto& matrix, bool with_zeros>
void collect(const float* from, int64_t point_stride, int64_t channels, float* const* to, uint32_t of_zeros,
             const Epilogue& epilogue) {
  constexpr int read = columns_of<matrix>, made = rows_of<matrix>;
  for (int64_t c = 0; c < channels; c += W)
    on_both_sides<matrix>(
        [&](int i, int j) { return load(from + (i * read + j) * point_stride + c); },
        [&](int i, int j, Floats value) {
          float* out = to[i * made + j];
          if (!out) return;
          out += c;
          // If a pixel is a sum of zeros only, remove rounding errors by multiplying by 0, which sets finite values to
          // zero, and turns infinity and NaN into NaN.
          if (with_zeros && of_zeros >> (i * made + j) & 1) value = value * 0.f + Floats{};
          if (epilogue.bias) value += load(epilogue.bias + c);
          if (epilogue.residual)
            value += load(reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(out) + epilogue.residual));
          if (epilogue.relu) value = value < 0.f ? Floats{} : value;  // NaN is not below 0, so it stays NaN
          store(out, value);
        });
}
template <const auto& matrix>
void collect(const float* from, int64_t point_stride, int64_t channels, float* const* to, uint32_t of_zeros,
             const Epilogue& epilogue) {
  if (of_zeros)
    collect<matrix, true>(from, point_stride, channels, to, of_zeros, epilogue);
  else
    collect<matrix, false>(from, point_stride, channels, to, 0, epilogue);
}

bool any_not_zero(const float* from) {
  constexpr int magnitude = 0x7fffffff;
#if MPSGRAPH_VECTOR_BYTES == 64
  return _mm512_test_epi32_mask(_mm512_loadu_si512(from), _mm512_set1_epi32(magnitude)) != 0;
#elif MPSGRAPH_VECTOR_BYTES == 32
  return !_mm256_testz_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), _mm256_set1_epi32(magnitude));
#else
  return any((load_as<Ints>(from) & magnitude) != 0);
#endif
}

bool any_not_zero(const float* from, int64_t channels) {
  for (int64_t c = 0; c < channels; c += W)
    if (any_not_zero(from + c)) return true;
  return false;
}

// Return whether certain pixels of the tile are all nonzero: one pixel or, for large tiles, four, chosen such that
// every window of the tile contains at least one of them. If so, no window is all zeros. This quick check nearly always
// succeeds.
template <int Results, int Taps>
bool all_windows_not_zero(const float* const* at) {
  constexpr int points = Results + Taps - 1;
  constexpr std::array probes{Taps - 1, Results - 1};
  constexpr int count = Results > Taps ? 2 : 1;  // 2 if the last window starts after the first one ends
  static_assert(Results <= 2 * Taps);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j)
      if (!any_not_zero(at[probes[i] * points + probes[j]])) return false;
  return true;
}

template <int Results, int Taps>
uint64_t not_zero(const float* const* at, const float* zeros, int64_t channels) {
  constexpr int pixels = (Results + Taps - 1) * (Results + Taps - 1);
  if (all_windows_not_zero<Results, Taps>(at)) return (uint64_t{1} << pixels) - 1;
  uint64_t found = 0;
  for (int i = 0; i < pixels; ++i) found |= uint64_t{at[i] != zeros && any_not_zero(at[i], channels)} << i;
  return found;
}

template <int Results, int Taps>
constexpr WinogradTransforms transforms{Results,
                                        Taps,
                                        spread<WinogradMatrices<Results, Taps>::source>,
                                        spread<WinogradMatrices<Results, Taps>::incoming>,
                                        spread<WinogradMatrices<Results, Taps>::weights>,
                                        collect<WinogradMatrices<Results, Taps>::result>,
                                        collect<WinogradMatrices<Results, Taps>::weights_gradient>,
                                        not_zero<Results, Taps>};
constexpr const WinogradTransforms* all[] = {&transforms<2, 2>, &transforms<3, 2>, &transforms<4, 2>,
                                             &transforms<2, 3>, &transforms<3, 3>, &transforms<4, 3>,
                                             &transforms<2, 5>, &transforms<3, 5>};

const WinogradTransforms* find(int results, int taps) {
  for (const WinogradTransforms* t : all)
    if (t->results == results && t->taps == taps) return t;
  return nullptr;
}

}  // namespace

constinit const FindWinogradTransforms find_winograd_transforms = find;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
