// Steps of an LSTM with 8-bit recurrent weights: the functions that an instruction set provides in addition to 8-bit
// matmuls (convolution/convolution_integers.h). One quantizes the states before the matmul, the other computes gates
// from the sums after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/recurrent/recurrent_engine.h"

namespace mpsgraph::cpu {

// Quantization of one direction's states in a step: a byte q represents the value (q - zero_point) * scale.
struct QuantizedRange {
  float scale;
  int32_t zero_point;
};

// A block of hidden units, in which each of the four gates is a panel of columns. Per-column values are arranged by
// role (the function of a gate, such as forget gate), with as many entries per role as a panel has columns.
struct QuantizedBlock {
  static constexpr int columns = 32, roles = 4;
  int64_t direction, step, row, unit;
  QuantizedRange range;
  const float* scales;  // scales of the weights
  const int32_t* column_sums[roles];  // column sums of the signed weights, indexed by role
  const int32_t* zero_points;  // zero points of the signed weights; null if all are zero
  const int32_t* row_terms;  // the factor of a column's zero point, indexed by row
};

struct QuantizedLstmEngine {
  // Quantize the states of all rows to bytes, and return their quantization parameters. Quantized rows start to_stride
  // bytes apart, a multiple of 64, and are padded to that length.
  QuantizedRange (*quantize)(const float* states, int64_t rows, int64_t stride, int64_t hidden, uint8_t* to,
                             int64_t to_stride);
  // Compute the states and cell states of `count` rows from sums [count][roles][columns].
  void (*gates)(const RecurrentJob<float>&, const QuantizedBlock&, int count, const int32_t* sums);
};

MPSGRAPH_VECTOR_TABLE(QuantizedLstmEngine, quantized_lstm_engine);

// The template parameter P provides everything that RecurrentSteps requires, for float, and also nearest(x), which
// rounds numbers below 2^22 to integers, ties to even; store_bytes(to, x), which stores numbers from 0 to 255; and
// less_zero_points(sums, column sums, zero point, column zero points or null, row term), which returns floats.
template <class P>
class QuantizedLstm : RecurrentSteps<P> {
  using Steps = RecurrentSteps<P>;
  using V = typename P::V;
  using Job = RecurrentJob<float>;
  using typename Steps::Place;
  static constexpr int W = P::W, most_rows = 32, columns = QuantizedBlock::columns, roles = QuantizedBlock::roles;

 public:
  static constexpr QuantizedLstmEngine engine() { return {quantize, gates}; }

 private:
  static V load(const float* p, int64_t n) { return n >= W ? P::load(p) : P::load_part(p, n); }

  static QuantizedRange quantize(const float* states, int64_t rows, int64_t stride, int64_t hidden, uint8_t* to,
                                 int64_t to_stride) {
    V lows{}, highs{}, no_numbers{};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < hidden; i += W) {
        const V x = load(states + r * stride + i, hidden - i);
        lows = P::least(x, lows);
        highs = P::greatest(x, highs);
        no_numbers += x - x;
      }
    float low[W], high[W], none[W];
    P::store(low, lows);
    P::store(high, highs);
    P::store(none, no_numbers);
    for (int i = 1; i < W; ++i) {
      low[0] = std::min(low[0], low[i]);
      high[0] = std::max(high[0], high[i]);
      none[0] += none[i];
    }
    const float scale = none[0] == 0 ? (high[0] - low[0]) / 255.f : std::numeric_limits<float>::quiet_NaN();
    if (!(scale > 0) || scale > std::numeric_limits<float>::max()) {
      std::fill_n(to, rows * to_stride, uint8_t{0});
      return {scale, 0};
    }
    const V most = P::splat(255), step = P::splat(scale);
    const auto limited = [&](V x) { return P::least(most, P::greatest(V{}, x)); };
    float point[W];
    P::store(point, limited(P::nearest(P::splat(-low[0]) / step)));
    const V zero = P::splat(point[0]);
    for (int64_t r = 0; r < rows; ++r, to += to_stride) {
      int64_t i = 0;
      for (; i < hidden; i += W)
        P::store_bytes(to + i, limited(P::nearest(load(states + r * stride + i, hidden - i) / step) + zero));
      for (; i < to_stride; i += W) P::store_bytes(to + i, V{});
    }
    return {scale, static_cast<int32_t>(point[0])};
  }

  static void gates(const Job& j, const QuantizedBlock& b, int count, const int32_t* sums) {
    const int64_t t = j.time(b.direction, b.step), width = std::min<int64_t>(columns, j.hidden - b.unit);
    const float* source = j.source + ((b.direction * j.steps + t) * j.batch + b.row) * roles * j.hidden + b.unit;
    for (int64_t at = 0; at < width; at += W) {
      float products[most_rows * roles * W];
      const Place place{b.direction, b.step, t, b.row, b.unit + at, std::min<int64_t>(W, width - at)};
      for (int role = 0; role < roles; ++role) {
        const V factor = P::splat(b.range.scale) * P::load(b.scales + role * columns + at);
        const int32_t* zeros = b.zero_points ? b.zero_points + role * columns + at : nullptr;
        const float* from = source + j.places[role] * j.hidden + at;
        for (int r = 0; r < count; ++r, from += roles * j.hidden) {
          const V sum = P::less_zero_points(sums + (r * roles + role) * columns + at, b.column_sums[role] + at,
                                            b.range.zero_point, zeros, zeros ? b.row_terms[r] : 0);
          P::store(products + (r * roles + role) * W, load(from, place.lanes) + sum * factor);
        }
      }
      if (Steps::usual(j))
        Steps::usual_lstm(j, place, count, products);
      else
        Steps::template each<roles, Steps::lstm>(j, place, count, products);
    }
  }
};

}  // namespace mpsgraph::cpu
