// Loops of sample_grid_float.h.
// Instruction sets: avx2, avx512.

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/sampling/sample_grid_float.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t W = lanes<float>, block = 64, ahead = 4;
// line: bytes of a cache line; most_lines: maximum number of cache lines prefetched per tap
constexpr int64_t line = 64, most_lines = 8;
using V = Floats;

// Positions along one axis: the indices of the elements before and after each point, and the fraction of the distance
// between them at which the point lies. The index of an element is -1 if the constant applies instead.
struct Between {
  int32_t low[block], high[block];
  float at[block] = {};
};

template <bool clamps>
void find_in(const FloatGridSampling::Axis& axis, const double* start, const float* coordinates, int64_t n,
             Between& found) {
  constexpr double far = 1e9;  // positions beyond this bound, and NaN, are outside the source
  const auto size = static_cast<int32_t>(axis.size);
  for (int64_t i = 0; i < n; ++i) {
    const double place = axis.gain * static_cast<double>(coordinates[2 * i]) + start[i], whole = std::floor(place);
    found.at[i] = static_cast<float>(place - whole);
    const auto low = static_cast<int32_t>(whole > -far ? (whole < far ? whole : far) : -far), high = low + 1;
    if (clamps) {
      found.low[i] = std::clamp(low, 0, size - 1);
      found.high[i] = std::clamp(high, 0, size - 1);
    } else {
      found.low[i] = (low >= 0) & (low < size) ? low : -1;
      found.high[i] = (high >= 0) & (high < size) ? high : -1;
    }
  }
}

void find(const FloatGridSampling& j, const FloatGridSampling::Axis& axis, bool rows, const float* coordinates,
          int64_t first, int64_t n, Between& found) {
  double start[block];
  for (int64_t i = 0; i < n; ++i) start[i] = axis.start;
  if (axis.step != 0)
    for (int64_t i = 0; i < n; ++i)
      start[i] += axis.step * static_cast<double>(rows ? (first + i) / j.columns : (first + i) % j.columns);
  (j.clamps ? find_in<true> : find_in<false>)(axis, start, coordinates, n, found);
}

// The indices of the four pixels around each point, top row first. An index is -1 if the pixel is outside the source,
// and in unused entries at the end of the block.
struct Around {
  int32_t pixel[4][block];

  Around(const Between& x, const Between& y, int32_t width, int64_t n) {
    for (int k = 0; k < 4; ++k) {
      const int32_t *rows = k / 2 ? y.high : y.low, *columns = k % 2 ? x.high : x.low;
      for (int64_t i = 0; i < n; ++i)
        pixel[k][i] = (rows[i] >= 0) & (columns[i] >= 0) ? rows[i] * width + columns[i] : -1;
      std::fill(pixel[k] + n, pixel[k] + block, -1);
    }
  }
};

// The four pixels around a point. A pixel outside the source is replaced with a vector of constants that is read
// repeatedly.
struct Taps {
  const float* from[4];
  int64_t step[4];

  Taps(const Around& around, int64_t i, const float* image, int64_t channels, const float* constants) {
    for (int k = 0; k < 4; ++k) {
      const int32_t pixel = around.pixel[k][i];
      from[k] = pixel >= 0 ? image + pixel * channels : constants;
      step[k] = pixel >= 0 ? W : 0;
    }
  }
};

// Prefetch the four pixels around a point.
void fetch(const Around& around, int64_t i, const float* image, int64_t channels, int64_t lines) {
  for (int k = 0; k < 4; ++k) {
    const float* p = image + std::max(around.pixel[k][i], 0) * channels;
    for (int64_t l = 0; l < lines; ++l) __builtin_prefetch(p + l * line / 4);
  }
}

struct Weights {
  float of[4];
  Weights(float fx, float fy) : of{(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx} {}
  float operator[](int k) const { return of[k]; }
};

void blend(const Taps& taps, const Weights& w, int64_t channels, float* to) {
  const float *a = taps.from[0], *b = taps.from[1], *c = taps.from[2], *d = taps.from[3];
  int64_t left = channels;
  for (; left >= W; left -= W, to += W) {
    store(to, load(a) * w[0] + load(b) * w[1] + load(c) * w[2] + load(d) * w[3]);
    a += taps.step[0], b += taps.step[1], c += taps.step[2], d += taps.step[3];
  }
  if (left > 0)
    store(to, load(a, left) * w[0] + load(b, left) * w[1] + load(c, left) * w[2] + load(d, left) * w[3], left);
}

#if MPSGRAPH_VECTOR_BYTES == 64
// Blend pixels that consist of whole cache lines but start `shift` elements after a cache line boundary, as in large
// numpy arrays. The four pixels are blended with aligned loads, and only the result is shifted. Unaligned loads would
// each cross a cache line boundary and take twice as long.
void blend_lines(const Taps& taps, const Weights& w, int64_t shift, int64_t channels, float* to) {
  const float* line[4];
  for (int k = 0; k < 4; ++k) line[k] = taps.from[k] - (taps.step[k] ? shift : 0);
  const auto begin = static_cast<__mmask16>(0xffffu << shift), end = static_cast<__mmask16>(~begin);
  const auto blended = [&](__mmask16 within) __attribute__((always_inline)) {
    V sum = std::bit_cast<V>(_mm512_maskz_load_ps(within, line[0])) * w[0];
    for (int k = 1; k < 4; ++k) sum += std::bit_cast<V>(_mm512_maskz_load_ps(within, line[k])) * w[k];
    for (int k = 0; k < 4; ++k) line[k] += taps.step[k];
    return sum;
  };
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i shifted = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(shift)));
  V low = blended(begin);
  for (int64_t left = channels; left > 0; left -= W, to += W) {
    const V high = blended(left > W ? __mmask16(0xffff) : end);
    store(to,
          std::bit_cast<V>(_mm512_permutex2var_ps(std::bit_cast<__m512>(low), shifted, std::bit_cast<__m512>(high))));
    low = high;
  }
}
int64_t shift_of(const float* image, int64_t channels) {
  const auto behind = static_cast<int64_t>(reinterpret_cast<uintptr_t>(image) % line);
  return channels % W == 0 && behind % 4 == 0 ? behind / 4 : 0;
}
#else
void blend_lines(const Taps&, const Weights&, int64_t, int64_t, float*) {}
int64_t shift_of(const float*, int64_t) { return 0; }
#endif

void sample_pixels(const FloatGridSampling& j, const float* image, const float* coordinates, int64_t first,
                   int64_t last, float* result) {
  alignas(line) float constants[W];
  std::fill_n(constants, W, j.constant);
  const int64_t shift = shift_of(image, j.channels);
  const int64_t lines = std::min(most_lines, ((j.channels + shift) * 4 + line - 1) / line);
  Between x, y;
  for (; first < last; first += block) {
    const int64_t n = std::min(block, last - first);
    find(j, j.x, false, coordinates + 2 * first, first, n, x);
    find(j, j.y, true, coordinates + 2 * first + 1, first, n, y);
    const Around around(x, y, static_cast<int32_t>(j.x.size), n);
    for (int64_t i = 0; i < n; ++i) {
      if (i + ahead < n) fetch(around, i + ahead, image - shift, j.channels, lines);
      const Taps taps(around, i, image, j.channels, constants);
      const Weights weights(x.at[i], y.at[i]);
      float* to = result + (first + i) * j.channels;
      shift ? blend_lines(taps, weights, shift, j.channels, to) : blend(taps, weights, j.channels, to);
    }
  }
}

// --- planes ----------------------------------------------------------------------------------------------------------

// The four elements of a plane around each point, for a vector of points.
struct Corners {
  V v[4];
  Corners(const Around& around, int64_t i, const float* plane, float constant) {
    const V missing = constant - V{};
    for (int k = 0; k < 4; ++k) v[k] = gather(plane, around.pixel[k] + i, missing);
  }

 private:
  static V gather(const float* plane, const int32_t* pixels, V missing) {
#if MPSGRAPH_VECTOR_BYTES == 64
    const __m512i at = _mm512_loadu_si512(pixels);
    const __mmask16 there = _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512());
    return std::bit_cast<V>(_mm512_mask_i32gather_ps(std::bit_cast<__m512>(missing), there, at, plane, 4));
#elif MPSGRAPH_VECTOR_BYTES == 32
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels));
    const __m256 there = _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1)));
    return std::bit_cast<V>(_mm256_mask_i32gather_ps(std::bit_cast<__m256>(missing), plane, at, there, 4));
#else
    for (int i = 0; i < W; ++i)
      if (pixels[i] >= 0) missing[i] = plane[pixels[i]];
    return missing;
#endif
  }
};

// Call f(begin, n, x, y, around) for blocks of n points, the first of which has index `begin`. x and y are the
// positions of the points along both axes, and `around` has the indices of the pixels around them.
template <class F>
void for_blocks(const FloatGridSampling& j, const float* coordinates, int64_t first, int64_t last, const F& f) {
  Between x, y;
  for (; first < last; first += block) {
    const int64_t n = std::min(block, last - first);
    find(j, j.x, false, coordinates + 2 * first, first, n, x);
    find(j, j.y, true, coordinates + 2 * first + 1, first, n, y);
    f(first, n, x, y, Around(x, y, static_cast<int32_t>(j.x.size), n));
  }
}

void sample_planes(const FloatGridSampling& j, const float* image, const float* coordinates, int64_t first,
                   int64_t last, float* result) {
  const int64_t plane = j.x.size * j.y.size;
  for_blocks(j, coordinates, first, last,
             [&](int64_t begin, int64_t n, const Between& x, const Between& y, const Around& around) {
               for (int64_t c = 0; c < j.channels; ++c) {
                 float* const to = result + c * j.places + begin;
                 for (int64_t i = 0; i < n; i += W) {
                   const auto [v] = Corners(around, i, image + c * plane, j.constant);
                   const V fx = load(x.at + i), fy = load(y.at + i);
                   const V above = v[0] + fx * (v[1] - v[0]), below = v[2] + fx * (v[3] - v[2]);
                   const V blended = above + fy * (below - above);
                   i + W <= n ? store(to + i, blended) : store(to + i, blended, n - i);
                 }
               }
             });
}

void coordinate_gradient_of_planes(const FloatGridSampling& j, const float* incoming, const float* image,
                                   const float* coordinates, int64_t first, int64_t last, float* result) {
  const int64_t plane = j.x.size * j.y.size;
  for_blocks(j, coordinates, first, last,
             [&](int64_t begin, int64_t n, const Between& x, const Between& y, const Around& around) {
               V by_x[block / W] = {}, by_y[block / W] = {};
               for (int64_t c = 0; c < j.channels; ++c) {
                 const float* const from = incoming + c * j.places + begin;
                 for (int64_t i = 0; i < n; i += W) {
                   const auto [v] = Corners(around, i, image + c * plane, j.constant);
                   const V fx = load(x.at + i), fy = load(y.at + i);
                   const V in = i + W <= n ? load(from + i) : load(from + i, n - i);
                   by_x[i / W] += in * ((1.f - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
                   by_y[i / W] += in * ((1.f - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
                 }
               }
               for (int64_t i = 0; i < n; ++i) {
                 result[2 * (begin + i)] = by_x[i / W][i % W] * static_cast<float>(j.x.gain);
                 result[2 * (begin + i) + 1] = by_y[i / W][i % W] * static_cast<float>(j.y.gain);
               }
             });
}

}  // namespace

constinit const FloatGridLoops grid_loops{sample_pixels, sample_planes, coordinate_gradient_of_planes};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
