// Convolution micro-kernels (convolution_tiles.h) for one instruction set, an element type S, and a factor type F.
//
// A tile is two vectors wide, or four on Arm. Each of its vectors of sums has its own register. A step along the inner
// dimension therefore consists of one broadcast per row, two loads of the panel, and independent multiply-adds that
// hide each other's latency. On Arm, a multiply-add takes one factor from a lane of a vector, so the factors of a row
// are loaded once for several steps. Six rows by four vectors leave six registers for them, and two for the panel.
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

// `vectors` is the number of vectors in a row of a tile.
template <class S, class F, int vectors = vectors_of_tile>
struct MicroKernels {
  using Tiles = ConvolutionTiles<S, F>;
  using Epilogue = TileEpilogue<S>;
  static constexpr int lanes = MPSGRAPH_ISA::lanes<float>, columns = vectors * lanes, group = Tiles::group;
#if defined(__aarch64__)
  static constexpr int rows_of_tile = vectors == 2 ? 10 : 6;  // 20 or 24 of 32 registers hold sums
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
    if constexpr (group == 1) return multiply_add_lane<lane>(a, b, sum);
#ifdef MPSGRAPH_BF16_PRODUCTS
    // clang broadcasts the lanes that several calls of the intrinsic use, and then has too few registers
    __asm__("bfdot %0.4s, %1.8h, %2.2h[%3]" : "+w"(sum) : "w"(a), "w"(b), "i"(lane));
    return sum;
#endif
  }
  // Add the products of two vectors of a panel and one step, whose factors are in a lane of each row's vector.
  template <int lane, int R>
  [[gnu::always_inline]] static inline void add_pair(const Floats (&factors)[R], Floats first, Floats second,
                                                     Floats (&low)[R], Floats (&high)[R]) {
    if constexpr (group == 2) {  // clang then loads both vectors in one instruction; for float, in the other order
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        low[r] = add_lane<lane>(first, factors[r], low[r]);
        high[r] = add_lane<lane>(second, factors[r], high[r]);
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) low[r] = add_lane<lane>(first, factors[r], low[r]);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) high[r] = add_lane<lane>(second, factors[r], high[r]);
    }
  }
  // Add the products of one step, starting with the vector `begin` of the panel.
  template <int lane, int begin, int R, int V>
  [[gnu::always_inline]] static inline void add_step(const Floats (&factors)[R], const F* b, Floats (&sums)[V][R]) {
    if constexpr (begin + 1 < V) {
      add_pair<lane>(factors, load_as<Floats>(b + begin * lanes * group),
                     load_as<Floats>(b + (begin + 1) * lanes * group), sums[begin], sums[begin + 1]);
      add_step<lane, begin + 2>(factors, b, sums);
    } else if constexpr (begin < V) {
      const Floats last = load_as<Floats>(b + begin * lanes * group);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[begin][r] = add_lane<lane>(last, factors[r], sums[begin][r]);
    }
  }
  // Add the products of as many steps as a vector of factors has lanes, and move b past them.
  template <int R, int V>
  [[gnu::always_inline]] static inline void add_steps(const Floats (&factors)[R], const F*& b, Floats (&sums)[V][R]) {
    constexpr int stride = columns * group;
    if constexpr (V > 1) {
      // The first load also adds to the pointer. Compilers would do that in another instruction.
      const auto& memory = *reinterpret_cast<const uint8_t (*)[2 * sizeof(Floats)]>(b);
      Floats first, second;
      __asm__ volatile("ldp %q0, %q1, [%2], %3"
                       : "=w"(first), "=w"(second), "+r"(b)
                       : "i"(lanes * stride * sizeof(F)), "m"(memory));
      add_pair<0>(factors, first, second, sums[0], sums[1]);
      b -= lanes * stride;
      add_step<0, 2>(factors, b, sums);
    } else {
      add_step<0, 0>(factors, b, sums);
    }
    add_step<1, 0>(factors, b + stride, sums);
    add_step<2, 0>(factors, b + 2 * stride, sums);
    add_step<3, 0>(factors, b + 3 * stride, sums);
    b += lanes * stride;
  }
#endif

  // Accumulate the steps of one run in registers, for the columns of the first V vectors.
  template <int R, int V>
  [[gnu::always_inline]] static inline void add_run(const F* const (&a)[R], int64_t steps, const F* b,
                                                    Floats (&sums)[V][R]) {
    int64_t s = 0;
#if defined(__aarch64__)
    const F* at[R];
    for (int r = 0; r < R; ++r) at[r] = a[r];
    int64_t left = steps / lanes;
    if (left > 0) do {
        Floats factors[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          factors[r] = load_as<Floats>(at[r]);
          at[r] += lanes * group;
          keep_in_register(at[r]);  // the load then adds to the pointer, too
        }
        add_steps(factors, b, sums);
      } while (--left != 0);
    s = steps / lanes * lanes * group;
#endif
    for (; s < steps * group; s += group, b += columns * group) {
      Floats panel[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) panel[v] = load_as<Floats>(b + v * lanes * group);
      if constexpr (R <= rows_of_tile) ask_for_step<R, columns * group, V * lanes * group>(b);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[v][r] = add_product(a[r] + s, panel[v], sums[v][r]);
    }
  }

  // Sums and results must stay in registers, so loops over them are unrolled before GCC decides on register allocation,
  // and the epilogue's options are checked once for all rows.
  template <int R, int V>
  [[gnu::always_inline]] static inline void clear(Floats (&sums)[V][R]) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sums[v][r] = Floats{};
  }
  template <int R, int V>
  [[gnu::always_inline]] static inline void store_sums(float* to, const Floats (&sums)[V][R]) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, to += columns)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(to + v * lanes, sums[v][r]);
  }

  // Apply the epilogue to one of the vectors of columns in each of R rows, and store entire vectors.
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

  template <int R, int V>
  [[gnu::always_inline]] static inline void finish_rows(Floats (&sums)[V][R], S* const* out, int width,
                                                        const Epilogue& epilogue) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
      if (const int at = v * lanes; width >= at + lanes)
        finish_half(sums[v], at, out, epilogue);
      else if (width > at)
        finish_half_partly(sums[v], at, width - at, out, epilogue);
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

  template <int R, int V>
  static void multiply_rows(const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel, S* const* out,
                            int width, const Epilogue& epilogue) {
    Floats sums[V][R];
    clear(sums);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) ask_for_row(out[r], width, epilogue);
    for (int64_t i = 0; i < run_count; ++i) {
      const TileRun run = runs[i];
      const F* a[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) a[r] = rows[r] + run.delta;
      add_run(a, run.steps, panel + run.panel * columns * group, sums);
    }
    finish_rows(sums, out, width, epilogue);
  }

  template <int R>
  static void add_rows(const F* const* rows, int64_t steps, const F* panel, float* const* to) {
    Floats sums[vectors][R];
    const F* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      a[r] = rows[r];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[v][r] = load(to[r] + v * lanes);
    }
    add_run(a, steps, panel, sums);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) store(to[r] + v * lanes, sums[v][r]);
  }

  // Rows of an unpacked matrix are far apart and often share cache sets, so only few of them fit in L1: 24 in 48 KB if
  // they are 2 KB apart. Every tile therefore prefetches them again. The first tile prefetches further ahead, but not
  // so far that the data is evicted before it is used.
  template <int R>
  static void multiply_plain_rows(const F* rows, int64_t row_stride, int64_t steps, const F* matrix,
                                  int64_t matrix_stride, bool first, float* to) {
    const int64_t ahead = (first ? 12 : 4) * matrix_stride;
    Floats sums[vectors][R];
    clear(sums);
    const F* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = rows + r * row_stride;
    int64_t s = 0;
    for (; s < steps; ++s, matrix += matrix_stride) {
      Floats panel[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) panel[v] = load_as<Floats>(matrix + v * lanes);
      __builtin_prefetch(matrix + ahead);
      if constexpr (columns * sizeof(F) > 64) __builtin_prefetch(matrix + ahead + lanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[v][r] = add_product(a[r] + s, panel[v], sums[v][r]);
    }
    store_sums(to, sums);
  }

  // Keep one pointer in a register, so that all addresses are constant offsets from this pointer. GCC would otherwise
  // use a register for each address and, when none are left, spill them to vector registers and reload them, each time
  // at the cost of a multiply-add.
  template <class T>
  [[gnu::always_inline]] static inline void keep_in_register(T& pointer) {
    __asm__("" : "+r"(pointer));
  }

#if defined(__aarch64__)
  // Load two pointers and move `from` past them, in one instruction.
  [[gnu::always_inline]] static inline void load_pair(const F* const*& from, const F*& first, const F*& second) {
    const auto& memory = *reinterpret_cast<const F* const(*)[2]>(from);
    __asm__ volatile("ldp %0, %1, [%2], #16" : "=r"(first), "=r"(second), "+r"(from) : "m"(memory));
  }
  // Load a step of a panel and move the pointer past it. Four vectors take one instruction.
  [[gnu::always_inline]] static inline void load_panel(const F*& from, Floats (&panel)[vectors]) {
    if constexpr (vectors == 4) {
      // This instruction loads consecutive registers. If compilers choose them, sums do not stay in registers.
      const auto& memory = *reinterpret_cast<const uint8_t (*)[4 * sizeof(Floats)]>(from);
      register Floats v0 __asm__("v0"), v1 __asm__("v1"), v2 __asm__("v2"), v3 __asm__("v3");
      __asm__("ld1 {v0.16b-v3.16b}, [%4], #64" : "=w"(v0), "=w"(v1), "=w"(v2), "=w"(v3), "+r"(from) : "m"(memory));
      panel[0] = v0, panel[1] = v1, panel[2] = v2, panel[3] = v3;
    } else {
      for (int v = 0; v < vectors; ++v) panel[v] = load_as<Floats>(from + v * lanes * group);
      from += columns * group;
    }
  }
  // Add the products of one step with R factors, which are contiguous. The last vector of factors overlaps the one
  // before it.
  template <int R, int... r>
  [[gnu::always_inline]] static inline void add_outer(const F* a, const int64_t (&offsets)[(R + lanes - 1) / lanes],
                                                      const F*& from, Floats (&sums)[vectors][R],
                                                      std::integer_sequence<int, r...>) {
    constexpr int last = (R - 1) / lanes;
    Floats factors[last + 1], panel[vectors];
    for (int i = 0; i <= last; ++i) factors[i] = load_as<Floats>(a + offsets[i]);
    load_panel(from, panel);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      ((sums[v][r] =
            add_lane<r / lanes == last ? r - (R - lanes) : r % lanes>(panel[v], factors[r / lanes], sums[v][r])),
       ...);
    __asm__ volatile("" ::: "memory");  // before the last multiply-add, loads of the next step have no registers
  }
#endif

  template <int R>
  static void add_products(const F* const* rows, int64_t first_step, int64_t row_count, const F* panel, float* sums,
                           bool fresh, S* out, int64_t out_stride) {
    for (int r = 0; out && r < R; ++r) ask_for_row(out + r * out_stride, columns, {});
    Floats block[vectors][R];  // sums of this block of rows only, which limits the rounding errors of long sums
    clear(block);
    int64_t k = 0;
#if defined(__aarch64__)
    if constexpr (R >= lanes) {
      int64_t offsets[(R + lanes - 1) / lanes];
      for (int i = 0; i < (R + lanes - 1) / lanes; ++i) {
        offsets[i] = (first_step + std::min(i * lanes, R - lanes)) * group;
        keep_in_register(offsets[i]);  // loads then add the offset
      }
      const std::make_integer_sequence<int, R> all;
      if (int64_t left = row_count / 4; left > 0) do {
          const F *first, *second, *third, *fourth;
          load_pair(rows, first, second);
          load_pair(rows, third, fourth);
          add_outer<R>(first, offsets, panel, block, all);
          add_outer<R>(second, offsets, panel, block, all);
          add_outer<R>(third, offsets, panel, block, all);
          add_outer<R>(fourth, offsets, panel, block, all);
        } while (--left != 0);
      row_count %= 4;
    }
#endif
    for (; k < row_count; ++k, panel += columns * group) {
      const F* a = rows[k] + first_step * group;
      keep_in_register(a);
      Floats factors[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) factors[v] = load_as<Floats>(panel + v * lanes * group);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) block[v][r] = add_product(a + r * group, factors[v], block[v][r]);
    }
    if (!fresh) {
      const auto add = [&](const auto* from, int64_t stride) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) block[v][r] += load(from + r * stride + v * lanes);
      };
      if (sums)
        add(sums, columns);
      else
        add(out, out_stride);
    }
    if (!out) return store_sums(sums, block);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, out += out_stride)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) store(out + v * lanes, block[v][r]);
  }

  template <int V, int... I>
  static constexpr auto all_multiply(std::integer_sequence<int, I...>) {
    return std::array{&multiply_rows<I + 1, V>...};
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
  template <int... V>
  static constexpr auto all_widths(std::integer_sequence<int, V...>) {
    return std::array{all_multiply<V + 1>(Counts{})...};
  }
  static constexpr auto add_rows_by_count = all_add_rows(Counts{});
  static constexpr auto add_by_count = all_add(Counts{});

  static void multiply(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                       S* const* out, int width, const Epilogue& epilogue) {
    const auto at = static_cast<size_t>(count - 1);
#if defined(__aarch64__)
    constexpr bool by_width = true;
#else
    constexpr bool by_width = std::is_same_v<S, float>;
#endif
    if constexpr (by_width) {  // compute only the vectors that have a column of the result
      static constexpr auto multiply_by_width = all_widths(std::make_integer_sequence<int, vectors>());
      multiply_by_width[static_cast<size_t>((width - 1) / lanes)][at](rows, runs, run_count, panel, out, width,
                                                                      epilogue);
    } else {
      static constexpr auto by_count = all_multiply<vectors>(Counts{});
      by_count[at](rows, runs, run_count, panel, out, width, epilogue);
    }
  }

  static void multiply_narrow(int count, const F* const* rows, const TileRun* runs, int64_t run_count, const F* panel,
                              S* const* out, int width, const Epilogue& epilogue) {
    static constexpr auto by_count = all_multiply<1>(std::make_integer_sequence<int, rows_of_narrow_tile>());
    by_count[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
  }

  static void add(int count, const F* const* rows, int64_t steps, const F* panel, float* const* sums) {
    add_rows_by_count[static_cast<size_t>(count - 1)](rows, steps, panel, sums);
  }

  static void finish(const float* sums, S* out, int width, const Epilogue& epilogue) {
    finish_parts_of(sums, 1, 0, out, width, epilogue);
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

  [[gnu::always_inline]] static inline void finish_parts_of(const float* sums, int64_t parts, int64_t stride, S* out,
                                                            int width, const Epilogue& epilogue) {
    Floats total[vectors][1];
    for (int v = 0; v < vectors; ++v) total[v][0] = load(sums + v * lanes);
    for (int64_t i = 1; i < parts; ++i)
      for (int v = 0; v < vectors; ++v) total[v][0] += load(sums + i * stride + v * lanes);
    finish_rows(total, &out, width, epilogue);
  }
  static void finish_parts(const float* sums, int64_t parts, int64_t stride, S* out, const Epilogue& epilogue) {
    finish_parts_of(sums, parts, stride, out, columns, epilogue);
  }

  static void multiply_transposed(int count, const F* const* rows, int64_t first, int64_t row_count, const F* panel,
                                  float* sums, bool fresh, S* out, int64_t out_stride) {
    add_by_count[static_cast<size_t>(count - 1)](rows, first, row_count, panel, sums, fresh, out, out_stride);
  }

  // ---- panels ----

  // Pack one row of the matrix (a pair of rows for bfloat16 pairs), whose `columns` elements are contiguous.
  static void pack_step(const S* matrix, [[maybe_unused]] int64_t row_stride, F* panel) {
    for (int i = 0; i < columns; i += lanes)
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
        for (int half = 0; half < columns; half += lanes) {
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
        for (int i = 0; i < columns; i += lanes) store(matrix + k * row_stride + i, load(sums + k * columns + i));
    else if (row_stride == 1 && width == columns)
      for (; k + lanes <= rows; k += lanes)
        for (int half = 0; half < columns; half += lanes) {
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
