// Inner loops of depthwise convolutions.
//
// A strip has six pixels and two vectors of channels. Its twelve sums stay in registers. Twelve independent sums are
// enough to hide the latency of the multiply-adds, and each tap loads only two vectors of weights for all of them. If
// three or five adjacent taps of a row read adjacent pixels, each pixel is loaded only once; otherwise, the loads would
// take as long as the multiply-adds. With 32 registers, two result rows with nine taps each share their loads. Channels
// that do not fill a vector use half or a quarter of a vector.
//
// The gradient of the weights keeps the sums of up to ten taps in registers, so that each pixel of the incoming
// gradient is loaded once for all of them.
//
// With channels first, a row of a plane is processed up to four vectors of pixels at a time, and each tap multiplies
// all of these pixels by the same weight.
#include "backends/cpu/convolution/convolution_depthwise_loops.h"

#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t channels_at_once = W;
constexpr int pixels_at_once = 6;

template <int bytes>
struct Part {  // a vector of channels
  using Vector = MPSGRAPH_ISA::Vector<float, bytes>;
  static constexpr int64_t lanes = bytes / 4;
  static Vector load(const float* from) { return load_as<Vector>(from); }
  static void store(Vector v, float* to) { MPSGRAPH_ISA::store(to, v); }
};

template <int n>
void depthwise_channels(const DepthwisePixel& p, int64_t c) {
  using P = Part<MPSGRAPH_VECTOR_BYTES>;
  const auto load = [&](const float* from, int i) { return P::load(from + c + i * P::lanes); };
  typename P::Vector sums[n] = {};
  for (int64_t t = 0; t < p.taps; ++t)
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) sums[i] += load(p.rows[t], i) * load(p.weights[t], i);
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) {
    if (p.before) sums[i] += load(p.before, i);
    P::store(sums[i], p.to + c + i * P::lanes);
  }
}

// Add the products of one row of filter taps to `sums`, one tap after another.
template <class P, int n, int pixels>
[[gnu::always_inline]] inline void add_taps(const DepthwiseStrip& s, const float* seen, const float* weights,
                                            typename P::Vector (&sums)[pixels][n]) {
  for (int64_t tap = 0; tap < s.taps_of_row; ++tap, seen += s.tap_step, weights += s.channels) {
    typename P::Vector w[n];
#pragma GCC unroll 2
    for (int v = 0; v < n; ++v) w[v] = P::load(weights + v * P::lanes);
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < n; ++v) sums[p][v] += P::load(seen + p * s.pixel_step + v * P::lanes) * w[v];
  }
}

// Add the products of a row of `taps` adjacent filter taps to `sums`. The outer loop runs over the source pixels, so
// that each pixel is loaded only once.
template <class P, int n, int pixels, int taps>
[[gnu::always_inline]] inline void add_neighbours(const DepthwiseStrip& s, const float* seen, const float* weights,
                                                  typename P::Vector (&sums)[pixels][n]) {
  typename P::Vector w[taps][n];
#pragma GCC unroll 8
  for (int tap = 0; tap < taps; ++tap)
#pragma GCC unroll 2
    for (int v = 0; v < n; ++v) w[tap][v] = P::load(weights + tap * s.channels + v * P::lanes);
#pragma GCC unroll 16
  for (int i = 0; i < pixels + taps - 1; ++i, seen += s.tap_step) {
    typename P::Vector x[n];
#pragma GCC unroll 2
    for (int v = 0; v < n; ++v) x[v] = P::load(seen + v * P::lanes);
#pragma GCC unroll 8
    for (int tap = 0; tap < taps; ++tap)
      if (i >= tap && i - tap < pixels)
#pragma GCC unroll 2
        for (int v = 0; v < n; ++v) sums[i - tap][v] += x[v] * w[tap][v];
  }
}

// Apply the epilogue to a vector of sums and store it.
template <class P>
[[gnu::always_inline]] inline void finish(const DepthwiseStrip& s, typename P::Vector sum, int64_t place) {
  if (s.residual) sum += P::load(s.residual + place);
  if (s.relu) sum = sum < 0.f ? typename P::Vector{} : sum;  // a NaN sum is not below 0, so it stays NaN
  if constexpr (sizeof sum == MPSGRAPH_VECTOR_BYTES)
    if (s.past) return stream_store(s.to + place, sum);
  P::store(sum, s.to + place);
}

// Compute `n` vectors of channels, starting at channel c, for `pixels` pixels, starting at pixel `first`. `neighbours`
// is the number of adjacent taps per row, or 0 if taps are not adjacent.
template <int bytes, int n, int pixels, int neighbours>
void strip_part(const DepthwiseStrip& s, int64_t first, int64_t c) {
  using P = Part<bytes>;
  using Vector = typename P::Vector;
  Vector sums[pixels][n];
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < n; ++v) sums[p][v] = Vector{};
  for (int64_t row = 0; row < s.tap_rows; ++row) {
    const float* seen = s.rows[row] + first * s.pixel_step + c;
    if constexpr (neighbours > 0)
      add_neighbours<P, n, pixels, neighbours>(s, seen, s.weights[row] + c, sums);
    else
      add_taps<P, n, pixels>(s, seen, s.weights[row] + c, sums);
  }
#pragma GCC unroll 2
  for (int v = 0; v < n; ++v) {
    const int64_t at = c + v * P::lanes;
    const Vector bias = s.bias ? P::load(s.bias + at) : Vector{};
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p) finish<P>(s, sums[p][v] + bias, (first + p) * s.to_step + at);
  }
}

// Compute six pixels of two result rows for one vector of channels, with three rows of three adjacent taps.
void pair_part(const DepthwiseStrip& s, int64_t first, int64_t c) {
  using P = Part<MPSGRAPH_VECTOR_BYTES>;
  using Vector = P::Vector;
  constexpr int taps = 3, results = 2;
  Vector w[taps][taps], sums[results][pixels_at_once];
#pragma GCC unroll 4
  for (int row = 0; row < taps; ++row)
#pragma GCC unroll 4
    for (int tap = 0; tap < taps; ++tap) w[row][tap] = P::load(s.weights[row] + tap * s.channels + c);
  const Vector bias = s.bias ? P::load(s.bias + c) : Vector{};
#pragma GCC unroll 2
  for (int r = 0; r < results; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < pixels_at_once; ++p) sums[r][p] = Vector{};
#pragma GCC unroll 4
  for (int row = 0; row < taps + results - 1; ++row) {
    const float* seen = s.rows[row] + first * s.pixel_step + c;
#pragma GCC unroll 8
    for (int i = 0; i < pixels_at_once + taps - 1; ++i, seen += s.tap_step) {
      const Vector x = P::load(seen);
#pragma GCC unroll 2
      for (int r = 0; r < results; ++r)
#pragma GCC unroll 4
        for (int tap = 0; tap < taps; ++tap)
          if (row >= r && row - r < taps && i >= tap && i - tap < pixels_at_once)
            sums[r][i - tap] += x * w[row - r][tap];
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < results; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < pixels_at_once; ++p)
      finish<P>(s, sums[r][p] + bias, r * s.to_row + (first + p) * s.to_step + c);
}

void strip_channel(const DepthwiseStrip& s, int64_t pixel, int64_t c) {
  float sum = 0;
  for (int64_t row = 0; row < s.tap_rows; ++row)
    for (int64_t tap = 0; tap < s.taps_of_row; ++tap)
      sum += s.rows[row][pixel * s.pixel_step + tap * s.tap_step + c] * s.weights[row][tap * s.channels + c];
  if (s.bias) sum += s.bias[c];
  if (s.residual) sum += s.residual[pixel * s.to_step + c];
  s.to[pixel * s.to_step + c] = s.relu && sum < 0 ? 0 : sum;
}

// Compute `pixels` adjacent pixels of a result row, starting at pixel `first`, for all channels from c on.
template <int pixels, int neighbours = 0>
void strip_pixels(const DepthwiseStrip& s, int64_t first, int64_t c = 0) {
  // `most` vectors of channels are computed together; the number of registers limits this
  constexpr int bytes = MPSGRAPH_VECTOR_BYTES, most = vector_registers < 32 && neighbours > 0 ? 1 : 2;
  constexpr int64_t lanes = channels_at_once;
  for (; c + most * lanes <= s.channels; c += most * lanes) strip_part<bytes, most, pixels, neighbours>(s, first, c);
  if constexpr (most > 1)
    for (; c + lanes <= s.channels; c += lanes) strip_part<bytes, 1, pixels, neighbours>(s, first, c);
  if constexpr (bytes > 32)
    for (; c + 8 <= s.channels; c += 8) strip_part<32, 1, pixels, neighbours>(s, first, c);
  if constexpr (bytes > 16)
    for (; c + 4 <= s.channels; c += 4) strip_part<16, 1, pixels, neighbours>(s, first, c);
  for (; c < s.channels; ++c)
    for (int64_t pixel = first; pixel < first + pixels; ++pixel) strip_channel(s, pixel, c);
}

void prefetch_next(const DepthwiseStrip& s, int64_t pixel) {
  if (!s.next) return;
  for (int64_t row = 0; row < s.results; ++row) {
    const float* next = s.next + row * s.next_row + pixel * s.pixel_step;
    for (int64_t i = 0; i < pixels_at_once * s.pixel_step; i += 16) __builtin_prefetch(next + i, 0, 2);
  }
}

// Compute the remaining pixels of a strip, fewer than six, starting at index `pixel`.
void strip_rest(const DepthwiseStrip& s, int64_t pixel) {
  for (; pixel + 3 <= s.pixels; pixel += 3) strip_pixels<3>(s, pixel);
  for (; pixel < s.pixels; ++pixel) strip_pixels<1>(s, pixel);
}

void strip_pair(const DepthwiseStrip& s) {
  DepthwiseStrip second = s;
  ++second.rows, second.to += s.to_row;
  if (s.residual) second.residual += s.to_row;
  int64_t pixel = 0;
  for (; pixel + pixels_at_once <= s.pixels; pixel += pixels_at_once) {
    prefetch_next(s, pixel);
    int64_t c = 0;
    for (; c + channels_at_once <= s.channels; c += channels_at_once) pair_part(s, pixel, c);
    strip_pixels<pixels_at_once, 3>(s, pixel, c);
    strip_pixels<pixels_at_once, 3>(second, pixel, c);
  }
  strip_rest(s, pixel);
  strip_rest(second, pixel);
}

void depthwise_strip(const DepthwiseStrip& s) {
  if (s.results == 2) return strip_pair(s);
  const int64_t neighbours = s.pixel_step == s.tap_step ? s.taps_of_row : 0;
  const auto six = neighbours == 3   ? strip_pixels<pixels_at_once, 3>
                   : neighbours == 5 ? strip_pixels<pixels_at_once, 5>
                                     : strip_pixels<pixels_at_once>;
  int64_t pixel = 0;
  for (; pixel + pixels_at_once <= s.pixels; pixel += pixels_at_once) {
    prefetch_next(s, pixel);
    six(s, pixel, 0);
  }
  strip_rest(s, pixel);
}

// Add to the sums of `rows` x `taps` taps, starting at row `row` and tap `tap`, for the vector of channels at c.
template <class P, int rows, int taps>
void gradient_part(const DepthwiseGradientStrip& s, int64_t row, int64_t tap, int64_t c, int64_t first, int64_t last) {
  using Vector = typename P::Vector;
  Vector sums[rows][taps];
  const float* seen[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    seen[r] = s.rows[row + r] + tap * s.tap_step + first * s.pixel_step + c;
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) sums[r][t] = P::load(s.sums[row + r] + (tap + t) * s.channels + c);
  }
  const float* incoming = s.incoming + first * s.incoming_step + c;
  for (int64_t p = first; p < last; ++p, incoming += s.incoming_step) {
    const Vector y = P::load(incoming);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t) sums[r][t] += y * P::load(seen[r] + t * s.tap_step);
      seen[r] += s.pixel_step;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) P::store(sums[r][t], s.sums[row + r] + (tap + t) * s.channels + c);
}

// Add to the sums of `taps` taps of each row, starting at tap `tap`. Several rows of taps are processed together.
template <class P, int taps>
void gradient_rows(const DepthwiseGradientStrip& s, int64_t tap, int64_t c, int64_t first, int64_t last) {
  constexpr int together = taps == 3 ? 3 : taps > 3 ? 2 : 4;
  int64_t row = 0;
  for (; row + together <= s.tap_rows; row += together) gradient_part<P, together, taps>(s, row, tap, c, first, last);
  for (; row < s.tap_rows; ++row) gradient_part<P, 1, taps>(s, row, tap, c, first, last);
}

template <class P>
void gradient_channels(const DepthwiseGradientStrip& s, int64_t c, int64_t first, int64_t last) {
  constexpr int64_t most = 5;
  for (int64_t tap = 0; tap < s.taps_of_row; tap += most) switch (std::min(most, s.taps_of_row - tap)) {
      case 1: gradient_rows<P, 1>(s, tap, c, first, last); break;
      case 2: gradient_rows<P, 2>(s, tap, c, first, last); break;
      case 3: gradient_rows<P, 3>(s, tap, c, first, last); break;
      case 4: gradient_rows<P, 4>(s, tap, c, first, last); break;
      default: gradient_rows<P, 5>(s, tap, c, first, last);
    }
}

void depthwise_gradient_strip(const DepthwiseGradientStrip& s) {
  // A block of pixels is read again for each vector of channels, so it should stay in the first-level cache.
  constexpr int64_t floats_at_once = 6 << 10;
  const int64_t block = std::max<int64_t>(16, floats_at_once / ((s.tap_rows + 1) * s.channels));
  for (int64_t first = 0; first < s.pixels; first += block) {
    const int64_t last = std::min(s.pixels, first + block);
    int64_t c = 0;
    for (; c + W <= s.channels; c += W) gradient_channels<Part<MPSGRAPH_VECTOR_BYTES>>(s, c, first, last);
    if constexpr (MPSGRAPH_VECTOR_BYTES > 32)
      for (; c + 8 <= s.channels; c += 8) gradient_channels<Part<32>>(s, c, first, last);
    if constexpr (MPSGRAPH_VECTOR_BYTES > 16)
      for (; c + 4 <= s.channels; c += 4) gradient_channels<Part<16>>(s, c, first, last);
    for (; c < s.channels; ++c)
      for (int64_t row = 0; row < s.tap_rows; ++row)
        for (int64_t tap = 0; tap < s.taps_of_row; ++tap) {
          float& sum = s.sums[row][tap * s.channels + c];
          for (int64_t p = first; p < last; ++p)
            sum += s.incoming[p * s.incoming_step + c] * s.rows[row][p * s.pixel_step + tap * s.tap_step + c];
        }
  }
}

void depthwise_pixel(const DepthwisePixel& p) {
  int64_t c = 0;
  for (; c + 4 * channels_at_once <= p.channels; c += 4 * channels_at_once) depthwise_channels<4>(p, c);
  for (; c + channels_at_once <= p.channels; c += channels_at_once) depthwise_channels<1>(p, c);
  for (; c < p.channels; ++c) {
    float sum = 0;
    for (int64_t t = 0; t < p.taps; ++t) sum += p.rows[t][c] * p.weights[t][c];
    if (p.before) sum += p.before[c];
    p.to[c] = sum;
  }
}

// Compute n vectors of pixels, starting at pixel `first`. Only `count` lanes of the last vector are used.
template <int n>
void row_part(const DepthwiseRow& r, int64_t first, int64_t count) {
  V sums[n];
#pragma GCC unroll 4
  for (int v = 0; v < n; ++v) sums[v] = splat(r.bias);
  for (int64_t row = 0; row < r.tap_rows; ++row) {
    const float* seen = r.rows[row] + first;
    const float* weights = r.weights[row];
    for (int64_t tap = 0; tap < r.taps_of_row; ++tap, ++seen)
#pragma GCC unroll 4
      for (int v = 0; v < n; ++v) sums[v] += load(seen + v * W) * weights[tap];
  }
#pragma GCC unroll 4
  for (int v = 0; v < n; ++v) {
    const int64_t at = first + v * W;
    const bool whole = v + 1 < n || count == W;
    V sum = sums[v];
    if (r.relu) sum = sum < 0.f ? V{} : sum;  // a NaN sum is not below 0, so it stays NaN
    whole ? store(r.to + at, sum) : store(r.to + at, sum, count);
  }
}

void depthwise_row(const DepthwiseRow& r) {
  int64_t first = 0;
  for (; first + 4 * W < r.pixels; first += 4 * W) row_part<4>(r, first, W);
  const int64_t rest = r.pixels - first, vectors = (rest + W - 1) / W, count = rest - (vectors - 1) * W;
  switch (vectors) {
    case 1: return row_part<1>(r, first, count);
    case 2: return row_part<2>(r, first, count);
    case 3: return row_part<3>(r, first, count);
    default: return row_part<4>(r, first, count);
  }
}

void pad_rows(const PaddedRows& p) {
  const float* from = p.from;
  float* to = p.to;
  for (int64_t row = 0; row < p.rows; ++row, from += p.step, to += p.pitch) {
    for (int64_t i = 0; i < p.before; i += W) store(to + i, V{});
    float* behind = to + p.before;
    int64_t i = 0;
    for (; i + W <= p.count; i += W) store(behind + i, load(from + i));
    if (i < p.count) store(behind + i, load(from + i, p.count - i, V{})), i += W;
    for (; p.before + i < p.pitch; i += W) store(behind + i, V{});
  }
}

}  // namespace

constinit const DepthwiseFunctions depthwise_functions{depthwise_pixel, depthwise_strip, depthwise_gradient_strip,
                                                       depthwise_row,   pad_rows,        vector_registers == 32};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
