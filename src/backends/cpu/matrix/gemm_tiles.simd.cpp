// GEMM micro-kernel (gemm_tiles.h).
//
// Each step along the inner dimension performs one broadcast per row, one load of the panel per vector of columns, and
// independent multiply-adds that hide each other's latency. On Arm, a multiply-add can take a factor from a lane of a
// vector, so the factors of several rows (or, if the rows are contiguous, of several steps) are loaded at once.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cpu/matrix/gemm_tiles.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

#if MPSGRAPH_VECTOR_BYTES == 64
constexpr int rows_of_tile = 8, vectors_of_tile = 3;  // 24 of 32 registers hold sums
constexpr int64_t most_steps = 192;
#elif MPSGRAPH_VECTOR_BYTES == 32
constexpr int rows_of_tile = 6, vectors_of_tile = 2;  // 12 of 16 registers hold sums
constexpr int64_t most_steps = 256;
#elif defined(__aarch64__)
constexpr int rows_of_tile = 8, vectors_of_tile = 3;  // 24 of 32 registers hold sums
constexpr int64_t most_steps = 256;
#else
constexpr int rows_of_tile = 4, vectors_of_tile = 2;  // without FMA, products need two more registers
constexpr int64_t most_steps = 256;
#endif
static_assert(rows_of_tile <= most_gemm_rows);

template <class T>
struct Tile {
  using V = Vector<T>;
  static constexpr int lanes = lanes_of<V>, columns = vectors_of_tile * lanes;
  static_assert(columns <= most_gemm_columns);

  // Call f(row, vector) for all vectors of a tile. The sums must stay in registers, so the loops are unrolled.
  template <int rows, int vectors, class F>
  [[gnu::always_inline]] static inline void each(const F& f) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) f(r, v);
  }

#if defined(__aarch64__)
  // Call f with each of the constants 0 to n - 1.
  template <int n, class F>
  [[gnu::always_inline]] static inline void each_of(const F& f) {
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
      (f(std::integral_constant<int, i>()), ...);
    }(std::make_integer_sequence<int, n>());
  }
#endif

  // The elements of `a` in one step are contiguous if `by_steps`; otherwise, those of one row are.
  template <bool by_steps, int rows, int vectors>
  static void multiply(int64_t steps, const T* a, int64_t stride, const T* b, T* tile, int64_t row_stride,
                       bool accumulate, const GemmEpilogue<T>& epilogue) {
    V sums[rows][vectors];
    // Prefetch the result tile, so that it arrives from an outer cache before the summation ends.
    each<rows, vectors>([&](int r, int v) {
      sums[r][v] = V{};
      if (v == 0 || sizeof(V) == 64) __builtin_prefetch(tile + r * row_stride + v * lanes, 1);
    });
    const T* of_row[rows];
    for (int r = 0; r < rows; ++r) of_row[r] = a + r * stride;
    int64_t step = 0;
#if defined(__aarch64__)
    if constexpr (!by_steps) {
      constexpr int at_once = vectors * rows + vectors + rows <= 32 ? rows : 4;  // rows whose factors fit in registers
      for (; step + lanes <= steps; step += lanes, b += lanes * columns)
        each_of<(rows + at_once - 1) / at_once>([&](auto part) {
          constexpr int first = part * at_once, some = std::min(at_once, rows - first);
          V of_steps[some];
          for (int r = 0; r < some; ++r) of_steps[r] = load(of_row[first + r] + step);
          each_of<lanes>([&](auto lane) {
            V factors[vectors];
            each<1, vectors>([&](int, int v) { factors[v] = load(b + lane * columns + v * lanes); });
            each<some, vectors>([&](int r, int v) {
              V& sum = sums[first + r][v];
              sum = multiply_add_lane<lane>(factors[v], of_steps[r], sum);
            });
          });
        });
    } else if constexpr (rows % lanes == 0) {
#pragma GCC unroll 8
      for (; step < steps; ++step, a += stride, b += columns) {
        V of_rows[rows / lanes], factors[vectors];
        for (int i = 0; i < rows / lanes; ++i) of_rows[i] = load(a + i * lanes);
        each<1, vectors>([&](int, int v) { factors[v] = load(b + v * lanes); });
        each_of<lanes>([&](auto lane) {
          each<rows / lanes, vectors>([&](int i, int v) {
            V& sum = sums[i * lanes + lane][v];
            sum = multiply_add_lane<lane>(factors[v], of_rows[i], sum);
          });
        });
      }
    }
#endif
#pragma GCC unroll 2
    for (; step < steps; ++step) {
      V factors[vectors];
      each<1, vectors>([&](int, int v) { factors[v] = load(b + v * lanes); });
      each<rows, vectors>([&](int r, int v) {
        sums[r][v] = multiply_add(factors[v], splat<V>(by_steps ? a[r] : of_row[r][step]), sums[r][v]);
      });
      a += by_steps ? stride : 0, b += columns;
      __asm__("" : "+r"(a), "+r"(b));  // addresses are constant offsets from these registers
    }
    if (accumulate) each<rows, vectors>([&](int r, int v) { sums[r][v] += load(tile + r * row_stride + v * lanes); });
    if (const T* bias = epilogue.bias) each<rows, vectors>([&](int r, int v) { sums[r][v] += load(bias + v * lanes); });
    if (const T* residual = epilogue.residual)
      each<rows, vectors>([&](int r, int v) { sums[r][v] += load(residual + r * row_stride + v * lanes); });
    if (epilogue.relu)  // a NaN is not below 0, so it stays NaN
      each<rows, vectors>([&](int r, int v) { sums[r][v] = sums[r][v] < 0 ? V{} : sums[r][v]; });
    each<rows, vectors>([&](int r, int v) { store(tile + r * row_stride + v * lanes, sums[r][v]); });
  }

  using Multiply = void (*)(int64_t steps, const T* a, int64_t stride, const T* b, T* tile, int64_t row_stride,
                            bool accumulate, const GemmEpilogue<T>& epilogue);
  template <bool by_steps, int... i>
  static constexpr std::array<Multiply, sizeof...(i)> by_size(std::integer_sequence<int, i...>) {
    return {&multiply<by_steps, i / vectors_of_tile + 1, i % vectors_of_tile + 1>...};
  }
  static void part(int count, int vectors, int64_t steps, const T* a, int64_t a_row_stride, int64_t a_step_stride,
                   const T* b, T* tile, int64_t row_stride, bool accumulate, const GemmEpilogue<T>& epilogue) {
    using Sizes = std::make_integer_sequence<int, rows_of_tile * vectors_of_tile>;
    static constexpr auto by_steps = by_size<true>(Sizes()), by_rows = by_size<false>(Sizes());
    const bool contiguous = a_row_stride == 1;
    (contiguous ? by_steps : by_rows)[static_cast<size_t>((count - 1) * vectors_of_tile + vectors - 1)](
        steps, a, contiguous ? a_step_stride : a_row_stride, b, tile, row_stride, accumulate, epilogue);
  }

  // Rows that are contiguous along the inner dimension are transposed in registers, in square blocks. The last piece of
  // a row and the last square block of a tile may overlap the previous one.
  template <int width>
  static void pack(const T* from, int64_t count, int64_t stride, int64_t step_stride, int64_t steps, T* packed) {
    constexpr int most = std::bit_floor(static_cast<unsigned>(width));
    constexpr int piece = std::min(lanes, most), side = std::min(piece, 8);  // columns of a piece and of a square
    using Piece = Vector<T, piece * sizeof(T)>;
    using Row = Vector<T, side * sizeof(T)>;
    int64_t step = 0;
    if (stride == 1 && count == width) {
      for (; step < steps; ++step, from += step_stride, packed += width)
#pragma GCC unroll 4
        for (int first = 0; first < width; first += piece) {
          const int i = first < width - piece ? first : width - piece;
          store(packed + i, load_as<Piece>(from + i));
        }
      return;
    }
    if (step_stride == 1 && count >= side) {
      const int64_t whole = steps / side * side;
      for (int64_t first = 0; first < count; first += side) {
        const int64_t i = first < count - side ? first : count - side;
        for (int64_t s = 0; s < whole; s += side) {
          Row square[side];
          for (int r = 0; r < side; ++r) square[r] = load_as<Row>(from + (i + r) * stride + s);
          transpose(square);
          for (int r = 0; r < side; ++r) store(packed + (s + r) * width + i, square[r]);
        }
      }
      for (; step < whole; ++step, packed += width)
        for (int64_t i = count; i < width; ++i) packed[i] = 0;
    }
    for (; step < steps; ++step, packed += width)
      for (int i = 0; i < width; ++i) packed[i] = i < count ? from[i * stride + step * step_stride] : T(0);
  }
};

}  // namespace

template <class T>
constexpr GemmTiles<T> gemm_tiles{rows_of_tile,
                                  Tile<T>::columns,
                                  Tile<T>::lanes,
                                  most_steps,
                                  Tile<T>::part,
                                  Tile<T>::template pack<rows_of_tile>,
                                  Tile<T>::template pack<Tile<T>::columns>};
constinit const GemmTiles<float> gemm_tiles_float = gemm_tiles<float>;
constinit const GemmTiles<double> gemm_tiles_double = gemm_tiles<double>;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
