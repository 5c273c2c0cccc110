// Convolution micro-kernels (convolution_tiles.h) for one instruction set, an element type S, and a factor type F.
//
// A tile is two vectors wide. Each of its vectors of sums has its own register. A step along the inner dimension
// therefore consists of one broadcast per row, two loads of the panel, and independent multiply-adds that hide each
// other's latency.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class S, class F>
struct MicroKernels {
  using Tiles = ConvolutionTiles<S, F>;
  using Epilogue = TileEpilogue<S>;
  static constexpr int lanes = MPSGRAPH_ISA::lanes<float>, columns = 2 * lanes, group = Tiles::group;
#if defined(__aarch64__)
  static constexpr int rows_of_tile = 10;  // leaves 12 of 32 registers for the operands of four steps
#else
  static constexpr int rows_of_tile = lanes == 16 ? 12 : 6;  // 12 rows with 32 vector registers, 6 with 16
#endif
  // Rows of a tile with one vector of columns. Nine pointers to rows fit in registers, and nine sums hide the latency.
  static constexpr int rows_of_narrow_tile = 9;

  // Return sum + a b, where a broadcasts the factors of one step: a float, or a pair of bfloat16.
  static Floats add_product(const float* a, Floats b, Floats sum) { return sum + *a * b; }
#ifdef MPSGRAPH_BF16_PRODUCTS
  static Floats add_product(const BFloat16* a, Floats b, Floats sum) {
    int32_t pair;
    std::memcpy(&pair, a, sizeof pair);
#if defined(__aarch64__)
    const auto pairs = (bfloat16x8_t)vdupq_n_s32(pair);
    return (Floats)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)b, pairs);
#else
    return std::bit_cast<Floats>(_mm512_dpbf16_ps(
        std::bit_cast<__m512>(sum), std::bit_cast<__m512bh>(_mm512_set1_epi32(pair)), std::bit_cast<__m512bh>(b)));
#endif
  }
#endif

  // Store four-byte words without conversion: floats, or pairs of bfloat16.
  static void store_words(F* to, Floats words) { store(static_cast<void*>(to), words); }
  // Load a vector of contiguous factors, widening elements if necessary.
  static Floats load_steps(const S* from) {
    if constexpr (std::is_same_v<S, F>)
      return load_as<Floats>(from);
    else
      return load(from);
  }
  // Interleave two rows of bfloat16.
  static Floats pairs_of(const BFloat16* first, const BFloat16* second) {
    return std::bit_cast<Floats>(widened(load_as<HalfBits>(first)) | widened(load_as<HalfBits>(second)) << 16);
  }

  static const S* residual_of(const S* out, const Epilogue& epilogue) {
    return reinterpret_cast<const S*>(reinterpret_cast<const std::byte*>(out) + epilogue.residual);
  }

  // Apply the epilogue to a row with fewer columns than a tile, and store the results.
  [[gnu::noinline]] static void finish_partly(const float* sums, int width, S* out, const Epilogue& epilogue) {
    for (int i = 0; i < width; ++i) {
      float sum = sums[i];
      if (epilogue.bias) sum += static_cast<float>(epilogue.bias[i]);
      if (epilogue.residual) sum += static_cast<float>(residual_of(out, epilogue)[i]);
      out[i] = S(epilogue.relu && sum < 0.f ? 0.f : sum);
    }
  }

#if defined(__aarch64__)
  // Return sum + a b[lane]; a lane holds a float or a pair of bfloat16.
  template <int lane>
  [[gnu::always_inline]] static inline Floats add_lane(Floats a, Floats b, Floats sum) {
#ifdef MPSGRAPH_BF16_PRODUCTS
    if constexpr (group == 2)
      return (Floats)vbfdotq_laneq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b, lane);
#endif
    return multiply_add_lane<lane>(a, b, sum);
  }
  // Return sum + a[0] b[0] + ... + a[3] b[3], in this order.
  [[gnu::always_inline]] static inline Floats add_products(const Floats (&a)[lanes], Floats b, Floats sum) {
    sum = add_lane<0>(a[0], b, sum);
    sum = add_lane<1>(a[1], b, sum);
    sum = add_lane<2>(a[2], b, sum);
    return add_lane<3>(a[3], b, sum);
  }
  // Add a times each lane of b to a sum.
  [[gnu::always_inline]] static inline void add_lanes(Floats a, Floats b, Floats& s0, Floats& s1, Floats& s2,
                                                      Floats& s3) {
    s0 = add_lane<0>(a, b, s0), s1 = add_lane<1>(a, b, s1);
    s2 = add_lane<2>(a, b, s2), s3 = add_lane<3>(a, b, s3);
  }
#endif

  // Accumulate the steps of one run in registers. If `narrow`, accumulate only the columns of the first vector.
  template <int R, bool narrow = false>
  [[gnu::always_inline]] static inline void add_run(const F* const (&a)[R], int64_t steps, const F* b, Floats (&low)[R],
                                                    Floats (&high)[R]) {
    int64_t s = 0;
#if defined(__aarch64__)  // a multiply-add can take a factor from a lane, so load a row's factors of several steps
    const F* at[R];
    for (int r = 0; r < R; ++r) at[r] = a[r];
#pragma GCC unroll 1
    for (; s + lanes * group <= steps * group; s += lanes * group, b += lanes * columns * group) {
      Floats first[lanes], second[lanes];
      for (int i = 0; i < lanes; ++i) {
        first[i] = load_as<Floats>(b + i * columns * group);
        if constexpr (!narrow) second[i] = load_as<Floats>(b + (i * columns + lanes) * group);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Floats factors = load_as<Floats>(at[r]);
        at[r] += lanes * group;
        keep_in_register(at[r]);  // the load then adds to the pointer, too
        low[r] = add_products(first, factors, low[r]);
        if constexpr (!narrow) high[r] = add_products(second, factors, high[r]);
      }
    }
#endif
    for (; s < steps * group; s += group, b += columns * group) {
      const Floats first = load_as<Floats>(b), second = narrow ? Floats{} : load_as<Floats>(b + lanes * group);
      if constexpr (R <= rows_of_tile) ask_for_step<R, columns * group, narrow ? lanes * group : columns * group>(b);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        low[r] = add_product(a[r] + s, first, low[r]);
        if constexpr (!narrow) high[r] = add_product(a[r] + s, second, high[r]);
      }
    }
  }

  // Sums and results must stay in registers, so loops over them are unrolled before GCC decides on register allocation,
  // and the epilogue's options are checked once for all rows.
  template <int R>
  [[gnu::always_inline]] static inline void clear(Floats (&low)[R], Floats (&high)[R]) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) low[r] = high[r] = Floats{};
  }

  // Apply the epilogue to one of the two vectors of columns in each of R rows, and store entire vectors.
  template <int R>
  [[gnu::always_inline]] static inline void finish_half(Floats (&sums)[R], int at, S* const* out,
                                                        const Epilogue& epilogue) {
    if (epilogue.bias) {
      const Floats bias = load(epilogue.bias + at);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[r] += bias;
    }
    if (epilogue.residual)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[r] += load(residual_of(out[r], epilogue) + at);
    if (epilogue.relu)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        sums[r] = sums[r] < 0.f ? Floats{} : sums[r];  // a NaN is not below 0, so it stays NaN
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) store(out[r] + at, sums[r]);
  }

  // Apply the epilogue to a partial vector of each row through a separate buffer, because sums whose address is taken
  // cannot stay in registers.
  template <int R>
  [[gnu::always_inline]] static inline void finish_half_partly(const Floats (&sums)[R], int at, int width,
                                                               S* const* out, const Epilogue& epilogue) {
    float rows[R][lanes];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) store(rows[r], sums[r]);
    Epilogue rest = epilogue;
    if (rest.bias) rest.bias += at;
    for (int r = 0; r < R; ++r) finish_partly(rows[r], width, out[r] + at, rest);
  }

  template <int R>
  [[gnu::always_inline]] static inline void finish_rows(Floats (&low)[R], Floats (&high)[R], S* const* out, int width,
                                                        const Epilogue& epilogue) {
    if (width >= lanes)
      finish_half(low, 0, out, epilogue);
    else
      finish_half_partly(low, 0, width, out, epilogue);
    if (width == columns)
      finish_half(high, lanes, out, epilogue);
    else if (width > lanes)
      finish_half_partly(high, lanes, width - lanes, out, epilogue);
  }

  static void finish_row(Floats low, Floats high, S* out, int width, const Epilogue& epilogue) {
    Floats lows[] = {low}, highs[] = {high};
    finish_rows(lows, highs, &out, width, epilogue);
  }

  // Prefetch the destination of a row of results and its residual. With few steps, there would otherwise be too little
  // work to hide the latency of these memory accesses.
  static void ask_for_row(const S* out, int width, const Epilogue& epilogue) {
    __builtin_prefetch(out, 1);
    __builtin_prefetch(out + width - 1, 1);
    if constexpr (columns * sizeof(S) > 64) __builtin_prefetch(out + width / 2, 1);
    if (epilogue.residual) {
      __builtin_prefetch(residual_of(out, epilogue));
      __builtin_prefetch(residual_of(out, epilogue) + width - 1);
    }
  }

  template <int R, bool narrow>
  static void multiply_rows(const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel, S* const* out,
                            int width, const Epilogue& epilogue) {
    Floats low[R], high[R];
    clear(low, high);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) ask_for_row(out[r], width, epilogue);
    for (int64_t i = 0; i < run_count; ++i) {
      const TileRun run = runs[i];
      const F* a[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) a[r] = rows[r] + run.delta;
      add_run<R, narrow>(a, run.steps, panel + run.panel * columns * group, low, high);
    }
    if constexpr (!narrow)
      finish_rows(low, high, out, width, epilogue);
    else if (width == lanes)
      finish_half(low, 0, out, epilogue);
    else
      finish_half_partly(low, 0, width, out, epilogue);
  }

  template <int R>
  static void add_rows(const F* const* rows, int64_t steps, const F* panel, float* const* sums) {
    Floats low[R], high[R];
    const F* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = rows[r], low[r] = load(sums[r]), high[r] = load(sums[r] + lanes);
    add_run<R>(a, steps, panel, low, high);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) store(sums[r], low[r]), store(sums[r] + lanes, high[r]);
  }

  // Rows of an unpacked matrix are far apart and often share cache sets, so only few of them fit in L1: 24 in 48 KB if
  // they are 2 KB apart. Every tile therefore prefetches them again. The first tile prefetches further ahead, but not
  // so far that the data is evicted before it is used.
  template <int R>
  static void multiply_plain_rows(const F* rows, int64_t row_stride, int64_t steps, const F* matrix,
                                  int64_t matrix_stride, bool first, float* sums) {
    const int64_t ahead = (first ? 12 : 4) * matrix_stride;
    Floats low[R], high[R];
    clear(low, high);
    const F* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = rows + r * row_stride;
    for (int64_t s = 0; s < steps; ++s, matrix += matrix_stride) {
      const Floats left = load_as<Floats>(matrix), right = load_as<Floats>(matrix + lanes);
      __builtin_prefetch(matrix + ahead);
      if constexpr (columns * sizeof(F) > 64) __builtin_prefetch(matrix + ahead + lanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        low[r] = add_product(a[r] + s, left, low[r]);
        high[r] = add_product(a[r] + s, right, high[r]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, sums += columns) store(sums, low[r]), store(sums + lanes, high[r]);
  }

  // Keep one pointer in a register, so that all addresses are constant offsets from this pointer. GCC would otherwise
  // use a register for each address and, when none are left, spill them to vector registers and reload them, each time
  // at the cost of a multiply-add.
  [[gnu::always_inline]] static inline void keep_in_register(const F*& pointer) { __asm__("" : "+r"(pointer)); }

  template <int R>
  static void add_products(const F* const* rows, int64_t first_step, int64_t row_count, const F* panel, float* sums,
                           bool fresh, S* out, int64_t out_stride) {
    for (int r = 0; out && r < R; ++r) ask_for_row(out + r * out_stride, columns, {});
    Floats low[R], high[R];  // sums of this block of rows only, which limits the rounding errors of long sums
    clear(low, high);
    for (int64_t k = 0; k < row_count; ++k, panel += columns * group) {
      const F* a = rows[k] + first_step * group;
      keep_in_register(a);
      const Floats first = load_as<Floats>(panel), second = load_as<Floats>(panel + lanes * group);
#if defined(__aarch64__)
      if constexpr (R == rows_of_tile) {
        // the last vector overlaps the one before it
        const Floats left = load_as<Floats>(a), middle = load_as<Floats>(a + 4 * group),
                     right = load_as<Floats>(a + 6 * group);
        add_lanes(first, left, low[0], low[1], low[2], low[3]);
        add_lanes(second, left, high[0], high[1], high[2], high[3]);
        add_lanes(first, middle, low[4], low[5], low[6], low[7]);
        add_lanes(second, middle, high[4], high[5], high[6], high[7]);
        low[8] = add_lane<2>(first, right, low[8]), low[9] = add_lane<3>(first, right, low[9]);
        high[8] = add_lane<2>(second, right, high[8]), high[9] = add_lane<3>(second, right, high[9]);
        continue;
      }
#endif
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        low[r] = add_product(a + r * group, first, low[r]);
        high[r] = add_product(a + r * group, second, high[r]);
      }
    }
    if (!fresh) {
      const auto add = [&](const auto* from, int64_t stride) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) low[r] += load(from + r * stride), high[r] += load(from + r * stride + lanes);
      };
      if (sums)
        add(sums, columns);
      else
        add(out, out_stride);
    }
    if (out) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, out += out_stride) store(out, low[r]), store(out + lanes, high[r]);
      return;
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, sums += columns) store(sums, low[r]), store(sums + lanes, high[r]);
  }

  template <bool narrow, int... I>
  static constexpr auto all_multiply(std::integer_sequence<int, I...>) {
    return std::array{&multiply_rows<I + 1, narrow>...};
  }
  template <int... I>
  static constexpr auto all_add_rows(std::integer_sequence<int, I...>) {
    return std::array{&add_rows<I + 1>...};
  }
  template <int... I>
  static constexpr auto all_multiply_plain(std::integer_sequence<int, I...>) {
    return std::array{&multiply_plain_rows<I + 1>...};
  }
  template <int... I>
  static constexpr auto all_add(std::integer_sequence<int, I...>) {
    return std::array{&add_products<I + 1>...};
  }
  using Counts = std::make_integer_sequence<int, rows_of_tile>;
  static constexpr auto multiply_by_count = all_multiply<false>(Counts{});
  static constexpr auto add_rows_by_count = all_add_rows(Counts{});
  static constexpr auto add_by_count = all_add(Counts{});

  static void multiply(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                       S* const* out, int width, const Epilogue& epilogue) {
    if constexpr (std::is_same_v<S, float>)
      if (width <=
          lanes) {  // If only the first half of the columns is used, one vector suffices, which halves the work.
        static constexpr auto narrow_by_count = all_multiply<true>(Counts{});
        return narrow_by_count[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
      }
    multiply_by_count[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
  }

  static void multiply_narrow(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                              S* const* out, int width, const Epilogue& epilogue) {
    static constexpr auto by_count = all_multiply<true>(std::make_integer_sequence<int, rows_of_narrow_tile>());
    by_count[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
  }

  static void add(int count, const F* const* rows, int64_t steps, const F* panel, float* const* sums) {
    add_rows_by_count[static_cast<size_t>(count - 1)](rows, steps, panel, sums);
  }

  static void finish(const float* sums, S* out, int width, const Epilogue& epilogue) {
    finish_row(load(sums), load(sums + lanes), out, width, epilogue);
  }

  static void multiply_plain(int count, const F* rows, int64_t row_stride, int64_t steps, const F* matrix,
                             int64_t matrix_stride, bool first, float* sums) {
    static constexpr auto by_count = all_multiply_plain(Counts{});
    by_count[static_cast<size_t>(count - 1)](rows, row_stride, steps, matrix, matrix_stride, first, sums);
  }
  static constexpr decltype(Tiles::multiply_plain) plain_or_null() {
    if constexpr (std::is_same_v<S, float>)
      return multiply_plain;
    else
      return nullptr;
  }

  static void finish_parts(const float* sums, int64_t parts, int64_t stride, S* out, const Epilogue& epilogue) {
    Floats low = load(sums), high = load(sums + lanes);
    for (int64_t i = 1; i < parts; ++i) low += load(sums + i * stride), high += load(sums + i * stride + lanes);
    finish_row(low, high, out, columns, epilogue);
  }

  static void multiply_transposed(int count, const F* const* rows, int64_t first, int64_t row_count, const F* panel,
                                  float* sums, bool fresh, S* out, int64_t out_stride) {
    add_by_count[static_cast<size_t>(count - 1)](rows, first, row_count, panel, sums, fresh, out, out_stride);
  }

  // ---- panels ----

  // Pack one row of the matrix (a pair of rows for bfloat16 pairs), whose `columns` elements are contiguous.
  static void pack_step(const S* matrix, [[maybe_unused]] int64_t row_stride, F* panel) {
    for (int i : {0, lanes})
      if constexpr (group == 1)
        store_words(panel + i, load(matrix + i));
      else
        store_words(panel + i * group, pairs_of(matrix + i, matrix + row_stride + i));
  }

  static void pack(const S* matrix, int64_t row_stride, int64_t column_stride, int64_t rows, int width, F* panel) {
    int64_t k = 0;
    if (column_stride == 1 && width == columns)
      for (; k + group <= rows; k += group, matrix += row_stride * group, panel += columns * group)
        pack_step(matrix, row_stride, panel);
    else if (row_stride == 1 && width == columns)  // the elements of a column are contiguous, so transpose
      for (; k + lanes * group <= rows; k += lanes * group, matrix += lanes * group, panel += lanes * columns * group)
        for (int half : {0, lanes}) {
          Floats square[lanes];
          for (int i = 0; i < lanes; ++i) square[i] = load_steps(matrix + (half + i) * column_stride);
          transpose(square);
          for (int i = 0; i < lanes; ++i) store_words(panel + (i * columns + half) * group, square[i]);
        }
    for (; k < rows; k += group, matrix += row_stride * group, panel += columns * group)
      for (int c = 0; c < columns; ++c)
        for (int i = 0; i < group; ++i)
          panel[c * group + i] = c < width && k + i < rows ? F(matrix[i * row_stride + c * column_stride]) : F(0.f);
  }

  static void gather(const S* const* rows, const int* valid, int64_t row_stride, int64_t count, int width, F* panel) {
    for (int64_t r = 0; r < count; ++r, panel += columns * group) {
      if (width == columns && valid[r] == group) {
        pack_step(rows[r], row_stride, panel);
        continue;
      }
      for (int c = 0; c < columns; ++c)
        for (int i = 0; i < group; ++i)
          panel[c * group + i] = c < width && i < valid[r] ? F(rows[r][i * row_stride + c]) : F(0.f);
    }
  }

  static void widen(const S* from, int64_t n, float* to) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) store(to + i, load(from + i));
    for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
  }

  static void unpack(const float* sums, int64_t rows, int width, S* matrix, int64_t row_stride, int64_t column_stride) {
    int64_t k = 0;
    if (column_stride == 1 && width == columns)
      for (; k < rows; ++k)
        for (int i : {0, lanes}) store(matrix + k * row_stride + i, load(sums + k * columns + i));
    else if (row_stride == 1 && width == columns)
      for (; k + lanes <= rows; k += lanes)
        for (int half : {0, lanes}) {
          Floats square[lanes];
          for (int i = 0; i < lanes; ++i) square[i] = load(sums + (k + i) * columns + half);
          transpose(square);
          for (int i = 0; i < lanes; ++i) store(matrix + (half + i) * column_stride + k, square[i]);
        }
    for (; k < rows; ++k)
      for (int c = 0; c < width; ++c) matrix[k * row_stride + c * column_stride] = S(sums[k * columns + c]);
  }

  static constexpr Tiles tiles{{rows_of_tile},      columns, multiply, add,   finish, plain_or_null(), finish_parts,
                               multiply_transposed, pack,    gather,   widen, unpack};

  // Tiles of which only the first vector of columns is used.
  static constexpr Tiles narrow_tiles() {
    Tiles narrow = tiles;
    narrow.rows = rows_of_narrow_tile, narrow.multiply = multiply_narrow;
    narrow.add = nullptr, narrow.multiply_plain = nullptr, narrow.multiply_transposed = nullptr;  // for fewer rows
    return narrow;
  }
};

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
