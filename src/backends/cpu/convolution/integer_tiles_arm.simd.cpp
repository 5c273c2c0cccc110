// 8-bit integer micro-kernels with Arm's dot products.
// Instruction sets: neon_dotprod, neon_bf16.
//
// A dot product adds four products to each lane. As in convolution_micro_kernels.h, its second operand is a lane of a
// vector that holds several steps of a row. Sixteen columns, half of a panel, are summed at a time in registers.
// neon_bf16 stands for processors with I8MM and BF16, which can multiply unsigned by signed bytes. Others
// flip the sign bit of unsigned rows, which subtracts 128 from each element.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group, rows_of_tile = 5;
constexpr int width_of_half = columns / 2, vectors = width_of_half / 4, steps_at_once = 16 / group;

#ifdef __ARM_FEATURE_MATMUL_INT8
constexpr bool multiplies_unsigned = true;
#else
constexpr bool multiplies_unsigned = false;
#endif

template <int step, bool is_signed>
[[gnu::always_inline]] inline int32x4_t add_products(int32x4_t sums, int8x16_t weights, int8x16_t row) {
#ifdef __ARM_FEATURE_MATMUL_INT8
  if constexpr (!is_signed) return vsudotq_laneq_s32(sums, weights, vreinterpretq_u8_s8(row), step);
#endif
  return vdotq_laneq_s32(sums, weights, row, step);
}

template <bool is_signed>
[[gnu::always_inline]] inline int8x16_t turned(int8x16_t row) {
  return is_signed || multiplies_unsigned ? row : row ^ vdupq_n_s8(INT8_MIN);
}

template <int step, int R, bool is_signed>
[[gnu::always_inline]] inline void add_step(const int8x16_t (&row)[R], const int8_t* b, int32x4_t (&sums)[R][vectors]) {
  int8x16_t weights[vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) weights[v] = vld1q_s8(b + v * 16);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = add_products<step, is_signed>(sums[r][v], weights[v], row[r]);
}

// Compute sixteen columns of R rows. `b` is the panel at the first of these columns.
template <int R, bool is_signed>
[[gnu::always_inline]] inline void sum_half(const uint8_t* const* rows, const TileRun* runs, int64_t run_count,
                                            const int8_t* panel, const int32_t* start, int32_t (&all)[R][columns],
                                            int at) {
  int32x4_t sums[R][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = start ? vld1q_s32(start + at + v * 4) : vdupq_n_s32(0);
  constexpr int64_t step_bytes = columns * group;
  for (int64_t i = 0; i < run_count; ++i) {
    const int8_t* b = panel + runs[i].panel * step_bytes + at * group;
    const uint8_t* a[R];
    for (int r = 0; r < R; ++r) a[r] = rows[r] + runs[i].delta;
    int64_t s = 0;
    for (; s + steps_at_once <= runs[i].steps; s += steps_at_once, b += steps_at_once * step_bytes) {
      int8x16_t row[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) row[r] = turned<is_signed>(load_as<int8x16_t>(a[r] + s * group));
      add_step<0, R, is_signed>(row, b, sums);
      add_step<1, R, is_signed>(row, b + step_bytes, sums);
      add_step<2, R, is_signed>(row, b + 2 * step_bytes, sums);
      add_step<3, R, is_signed>(row, b + 3 * step_bytes, sums);
    }
    for (; s < runs[i].steps; ++s, b += step_bytes) {
      int8x16_t row[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t four;
        std::memcpy(&four, a[r] + s * group, sizeof four);
        row[r] = turned<is_signed>(vreinterpretq_s8_s32(vdupq_n_s32(four)));
      }
      add_step<0, R, is_signed>(row, b, sums);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) vst1q_s32(all[r] + at + v * 4, sums[r][v]);
}

template <class T>
void store_steps(const float* v, int width, int32_t zero_point, std::byte* out) {
  constexpr float far = 1 << 20;  // exact in float, and beyond the range of all 8-bit types
  constexpr int32_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  auto* to = reinterpret_cast<T*>(out);
  for (int c = 0; c < width; ++c) {
    const float low = v[c] < far ? v[c] : far, within = low > -far ? low : -far;
    to[c] = static_cast<T>(std::clamp(static_cast<int32_t>(__builtin_rintf(within)) + zero_point, least, most));
  }
}

// Apply the epilogue to the sums of a row and store the first `width` results.
void finish_row(const int32_t* sums, int width, std::byte* out, const IntegerEpilogue& e, int row) {
  if (e.result == IntegerResult::int32) {
    int32_t results[columns];
    const uint32_t term = e.row_terms ? static_cast<uint32_t>(e.row_terms[row]) : 0;
    for (int c = 0; c < width; ++c)
      results[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) +
                                        (e.row_terms ? term * static_cast<uint32_t>(e.column_terms[c]) : 0));
    std::memcpy(out, results, static_cast<size_t>(width) * sizeof(int32_t));
    return;
  }
  float v[columns];
  for (int c = 0; c < width; ++c) v[c] = static_cast<float>(sums[c]) * e.scale[c] + e.bias[c];
  if (e.has_residual) {
    const std::byte* from = out + e.residual;
    if (e.residual_is_signed)
      for (int c = 0; c < width; ++c) v[c] += static_cast<float>(static_cast<int8_t>(from[c])) * e.residual_scale;
    else
      for (int c = 0; c < width; ++c) v[c] += static_cast<float>(static_cast<uint8_t>(from[c])) * e.residual_scale;
  }
  if (e.relu)
    for (int c = 0; c < width; ++c) v[c] = v[c] < 0.f ? 0.f : v[c];  // a NaN is not below 0, so it stays NaN
  if (e.result == IntegerResult::float32)
    std::memcpy(out, v, static_cast<size_t>(width) * sizeof(float));
  else if (e.result == IntegerResult::int8)
    store_steps<int8_t>(v, width, e.zero_point, out);
  else
    store_steps<uint8_t>(v, width, e.zero_point, out);
}

template <int R, bool is_signed>
void multiply_rows(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                   std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  int32_t sums[R][columns];
  for (int at = 0; at < width; at += width_of_half)
    sum_half<R, is_signed>(rows, runs, run_count, panel, epilogue.start, sums, at);
  for (int r = 0; r < R; ++r) finish_row(sums[r], width, out[r], epilogue, r);
}

template <bool is_signed, int... I>
constexpr auto all_counts(std::integer_sequence<int, I...>) {
  return std::array{&multiply_rows<I + 1, is_signed>...};
}
using Counts = std::make_integer_sequence<int, rows_of_tile>;
constexpr auto of_unsigned = all_counts<false>(Counts{});
constexpr auto of_signed = all_counts<true>(Counts{});

void multiply(int count, const uint8_t* const* rows, bool is_signed, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (is_signed ? of_signed : of_unsigned)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width,
                                                                        epilogue);
}

void pack(const uint8_t* rows, int64_t stride, int64_t quads, uint8_t flipped, uint8_t* panel, int32_t* sums) {
  const uint8x16_t flip = vdupq_n_u8(flipped);
  for (int64_t i = 0; i < quads; ++i, rows += group * stride, panel += columns * group)
    for (int at = 0; at < columns; at += 16) {
      uint8x16x4_t quad;
      for (int k = 0; k < group; ++k) quad.val[k] = vld1q_u8(rows + k * stride + at) ^ flip;
      vst4q_u8(panel + at * group, quad);
      for (int v = 0; v < 4; ++v) {
        int32_t* to = sums + at + v * 4;
        vst1q_s32(to,
                  vdotq_s32(vld1q_s32(to), vreinterpretq_s8_u8(vld1q_u8(panel + at * group + v * 16)), vdupq_n_s8(1)));
      }
    }
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{rows_of_tile}, multiply, pack, 0, multiplies_unsigned ? 0 : -128};
  return tiles;
}

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
