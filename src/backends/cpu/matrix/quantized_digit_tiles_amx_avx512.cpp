// Products with packed weights by dot products of bytes in AMX registers.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/amx_registers.h"
#include "backends/cpu/half_types.h"
#include "backends/cpu/matrix/quantized_digit_tiles.h"

namespace mpsgraph::cpu::amx_digits {
namespace {

using amx::line;
using amx::memory_is_read;
constexpr int side = DigitTiles::side, digits = DigitRow::digits;
constexpr int64_t tile_bytes = side * line;

__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>(count >= side ? 0xffff : (1 << count) - 1); }

// Convert the scales or biases of a row to float, with zeros after the last one.
void widen(ScaleType type, const void* from, int64_t first, int64_t count, float* to) {
  for (int64_t i = 0; i < count + side; i += side) {
    const __mmask16 mask = first_lanes(std::clamp<int64_t>(count - i, 0, side));
    __m512 values;
    if (type == ScaleType::float32) {
      values = _mm512_maskz_loadu_ps(mask, static_cast<const float*>(from) + first + i);
    } else {
      const __m256i halves = _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(from) + first + i);
      values = type == ScaleType::float16 ? _mm512_cvtph_ps(halves)
                                          : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
    _mm512_mask_storeu_ps(to + i, first_lanes(count + side - i), values);
  }
}

// Load a vector of words of each row of weights into register 4. Elements of four bits become bytes in registers 4 and
// 5. Words and rows that do not exist are zero.
template <int bits>
void load_weights(const uint32_t* from, int64_t row_stride, int64_t words, int64_t rows) {
  if (bits == 8 && words >= side && rows == side) {
    memory_is_read();
    _tile_loadd(4, from, row_stride * 4);
    return;
  }
  alignas(64) uint8_t copied[2][tile_bytes];
  const __m512i low = _mm512_set1_epi8(0xf);
  for (int64_t r = 0; r < side; ++r) {
    const __m512i w =
        r < rows ? _mm512_maskz_loadu_epi32(first_lanes(words), from + r * row_stride) : _mm512_setzero_si512();
    if (bits == 8) {
      _mm512_store_si512(copied[0] + r * line, w);
    } else {
      _mm512_store_si512(copied[0] + r * line, _mm512_and_si512(w, low));
      _mm512_store_si512(copied[1] + r * line, _mm512_and_si512(_mm512_srli_epi16(w, 4), low));
    }
  }
  memory_is_read();
  _tile_loadd(4, copied[0], line);
  if (bits == 4) _tile_loadd(5, copied[1], line);
}

// Multiply sixteen rows of weights, or fewer.
template <int bits>
void multiply_rows(const PackedWeights& weights, int64_t first, int64_t count, const DigitTiles& x, float* scratch,
                   float* result, int64_t stride) {
  const DigitTiles::Shape& s = x.shape;
  const int64_t per_row = weights.words_per_row, groups = weights.groups_per_row, per_group = per_row / groups;
  const int64_t apart = groups + side;
  float *const scales = scratch, *const biases = scales + side * apart, *const totals = biases + side * apart;
  for (int64_t r = 0; r < count; ++r) {
    widen(weights.scale_type, weights.scale, (first + r) * groups, groups, scales + r * apart);
    widen(weights.scale_type, weights.bias, (first + r) * groups, groups, biases + r * apart);
  }
  std::memset(totals, 0, static_cast<size_t>(s.tiles * tile_bytes));
  // Column c = (digit * segments + segment) * rows_of_tile + row.
  alignas(64) int32_t segment_of_column[side];
  for (int c = 0; c < side; ++c) segment_of_column[c] = c / s.rows_of_tile % s.segments;
  const __m512i segment = _mm512_load_si512(segment_of_column);
  alignas(64) int32_t products[2][side * side];
  const auto add = [&](int64_t v, int64_t t, const int32_t* of) {
    const __m512 factor = _mm512_loadu_ps(x.factors + (v * s.tiles + t) * side);
    float* const to = totals + t * side * side;
    const float* scale = scales + v * side / per_group;
    for (int64_t r = 0; r < count; ++r, scale += apart) {
      const __m512 of_column =
          s.segments == 1 ? _mm512_set1_ps(*scale) : _mm512_permutexvar_ps(segment, _mm512_loadu_ps(scale));
      const __m512 product = _mm512_cvtepi32_ps(_mm512_load_si512(of + r * side));
      _mm512_storeu_ps(to + r * side,
                       _mm512_fmadd_ps(product, _mm512_mul_ps(of_column, factor), _mm512_loadu_ps(to + r * side)));
    }
  };
  for (int64_t v = 0; v < s.vectors; ++v) {
    load_weights<bits>(weights.words + first * per_row + v * side, per_row, per_row - v * side, count);
    const int8_t* of_tile = x.bytes + v * s.tiles * s.parts * tile_bytes;
    for (int64_t t = 0; t < s.tiles; t += 2) {  // two tiles at a time, because a product takes long to complete
      const bool both = t + 1 < s.tiles;
      const int8_t* const next = of_tile + s.parts * tile_bytes;
      _tile_zero(0);
      _tile_loadd(6, of_tile, line);
      _tile_dpbusd(0, 4, 6);
      if (both) {
        _tile_zero(1);
        _tile_loadd(7, next, line);
        _tile_dpbusd(1, 4, 7);
      }
      if (bits == 4) {
        _tile_loadd(6, of_tile + tile_bytes, line);
        _tile_dpbusd(0, 5, 6);
        if (both) {
          _tile_loadd(7, next + tile_bytes, line);
          _tile_dpbusd(1, 5, 7);
        }
      }
      _tile_stored(0, products[0], line);
      if (both) _tile_stored(1, products[1], line);
      memory_is_read();
      add(v, t, products[0]);
      if (both) add(v, t + 1, products[1]);
      of_tile = next + s.parts * tile_bytes;
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    __m512 biased = _mm512_setzero_ps();
    for (int64_t group = 0; group < groups; ++group)
      biased =
          _mm512_fmadd_ps(_mm512_set1_ps(biases[r * apart + group]), _mm512_loadu_ps(x.sums + group * side), biased);
    float sums[side + side];  // of each row of x; a tile stores sixteen lanes, of which the first are its rows
    for (int64_t t = 0; t < s.tiles; ++t) {
      const float* const columns = totals + (t * side + r) * side;
      __m512 sum = _mm512_loadu_ps(columns);
      for (int64_t c = s.rows_of_tile; c < digits * s.segments * s.rows_of_tile; c += s.rows_of_tile)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first_lanes(side - c), columns + c));
      _mm512_storeu_ps(sums + t * s.rows_of_tile, sum);
    }
    _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), biased));
    for (int64_t m = 0; m < s.rows; ++m) result[m * stride + r] = sums[m];
  }
}

}  // namespace

DigitTiles::Shape shape_of(const PackedWeights& weights, int64_t rows) {
  const int64_t per_group = weights.words_per_row / std::max<int64_t>(weights.groups_per_row, 1);
  if (weights.bits != 4 && weights.bits != 8) return {};
  if (per_group <= 0 || (per_group % side != 0 && side % per_group != 0)) return {};
  DigitTiles::Shape shape{.bits = weights.bits, .parts = 8 / weights.bits};
  shape.segments = static_cast<int>(per_group < side ? side / per_group : 1);
  shape.rows_of_tile = side / (digits * shape.segments);
  if (shape.rows_of_tile == 0) return {};
  shape.rows = rows, shape.groups = weights.groups_per_row;
  shape.vectors = (weights.words_per_row + side - 1) / side;
  shape.tiles = (rows + shape.rows_of_tile - 1) / shape.rows_of_tile;
  return shape;
}

void arrange(const DigitTiles& x, int64_t row, const DigitRow& from) {
  const DigitTiles::Shape& s = x.shape;
  const int64_t tile = row / s.rows_of_tile, r = row % s.rows_of_tile, words_of_segment = side / s.segments;
  for (int64_t v = 0; v < s.vectors; ++v) {
    int8_t* const to = x.bytes + (v * s.tiles + tile) * s.parts * tile_bytes;
    float* const factors = x.factors + (v * s.tiles + tile) * side;
    if (r == 0) {
      std::memset(to, 0, static_cast<size_t>(s.parts * tile_bytes));
      std::fill_n(factors, side, 0.f);
    }
    for (int d = 0; d < digits; ++d)
      for (int64_t word = 0; word < side; ++word) {
        const int64_t segment = word / words_of_segment, column = (d * s.segments + segment) * s.rows_of_tile + r;
        const int digit_value = 1 << (DigitRow::digit_bits * (digits - 1 - d));
        factors[column] = from.factors[v * side + word] * static_cast<float>(digit_value);
        for (int p = 0; p < s.parts; ++p)
          std::memcpy(to + p * tile_bytes + (word * side + column) * 4,
                      from.bytes + ((v * digits + d) * s.parts + p) * line + word * 4, 4);
      }
  }
}

void multiply(const PackedWeights& weights, int64_t first, int64_t count, const DigitTiles& x, float* scratch,
              float* result, int64_t stride) {
  const auto rows = weights.bits == 8 ? multiply_rows<8> : multiply_rows<4>;
  for (int64_t r = 0; r < count; r += side)
    rows(weights, first + r, std::min<int64_t>(side, count - r), x, scratch, result + r, stride);
}

void begin() { amx::begin(); }
void end() { amx::end(); }

}  // namespace mpsgraph::cpu::amx_digits
