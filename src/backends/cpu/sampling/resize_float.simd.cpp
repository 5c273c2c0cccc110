// Loops of resize_float.h.
#include <algorithm>
#include <cstring>

#include "backends/cpu/sampling/resize_float.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t W = lanes<float>;
using V = Floats;
using I = Ints;

// Return a product that the compiler cannot fuse into a multiply-add.
template <class Weight>
inline V product(V x, Weight w) {
  V result = x * w;
  hide(result);
  return result;
}
inline V blended(const float* a, float u, const float* b, float v) { return product(load(a), u) + product(load(b), v); }

// Blend two rows of at least one vector each. The last vector may overlap the one before it.
inline void blend_vectors(const float* a, float u, const float* b, float v, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, blended(a + i, u, b + i, v));
  if (i < n) store(y + n - W, blended(a + n - W, u, b + n - W, v));
}

#if !MPSGRAPH_IS_BASELINE
inline float blended(float a, float u, float b, float v) {
  V x{}, y{};
  x[0] = a, y[0] = b;
  return (product(x, u) + product(y, v))[0];
}

void blend(const float* a, float u, const float* b, float v, int64_t n, float* y) {
  if (n >= W) return blend_vectors(a, u, b, v, n, y);
  for (int64_t i = 0; i < n; ++i) y[i] = blended(a[i], u, b[i], v);
}
#else
constexpr decltype(ResizeRows::blend) blend = nullptr;
#endif

template <bool past>
void pixels_of(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i, index += 2, weight += 2, y += inner) {
    const float *a = x + index[0] * inner, *b = x + index[1] * inner;
    const auto u = static_cast<float>(weight[0]), v = static_cast<float>(weight[1]);
    if constexpr (past)
      for (int64_t j = 0; j < inner; j += W) stream_store(y + j, blended(a + j, u, b + j, v));
    else
      blend_vectors(a, u, b, v, inner, y);
  }
}

#if MPSGRAPH_VECTOR_BYTES == 64
// Compute pixels that are narrower than a vector.
void narrow_pixels(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i, index += 2, weight += 2, y += inner) {
    const V a = load(x + index[0] * inner, inner), b = load(x + index[1] * inner, inner);
    store(y, product(a, static_cast<float>(weight[0])) + product(b, static_cast<float>(weight[1])), inner);
  }
}
constexpr int64_t narrowest = 2;
#else
void narrow_pixels(const int64_t*, const double*, int64_t, int64_t, const float*, float*) {}
constexpr int64_t narrowest = W;
#endif

void pixels(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, bool past,
            float* y) {
  if (inner < W) return narrow_pixels(index, weight, count, inner, x, y);
  (past ? pixels_of<true> : pixels_of<false>)(index, weight, count, inner, x, y);
}

// --- pixels of one element -------------------------------------------------------------------------------------------

#if !MPSGRAPH_IS_BASELINE
constexpr int64_t window = 2 * W;  // number of consecutive elements from which the taps of a vector are selected

// Return x[index[i]] in each lane i. All indices must be below `window`, the number of elements that are loaded from x
// on.
inline V pick(const float* x, I index) {
#if MPSGRAPH_VECTOR_BYTES == 64
  return _mm512_permutex2var_ps(load(x), reinterpret_cast<__m512i>(index), load(x + W));
#elif defined(__aarch64__)
  const uint8x16x2_t table{{(uint8x16_t)load(x), (uint8x16_t)load(x + W)}};
  return (V)vqtbl2q_u8(table, (uint8x16_t)(index * 0x04040404 + 0x03020100));
#else
  const V low = _mm256_permutevar8x32_ps(load(x), reinterpret_cast<__m256i>(index)),
          high = _mm256_permutevar8x32_ps(load(x + W), reinterpret_cast<__m256i>(index));
  return index < static_cast<int32_t>(W) ? low : high;
#endif
}
V pick(const float* x, const int32_t* index) {
  V v;
  for (int i = 0; i < W; ++i) v[i] = x[index[i]];
  return v;
}

void elements(const PairsOfTaps& taps, int64_t count, const float* x, int64_t n, bool past, float* y) {
  const auto [low, high, u, v] = taps;
  if (count < W) {
    for (int64_t i = 0; i < count; ++i) y[i] = blended(x[low[i]], u[i], x[high[i]], v[i]);
    return;
  }
  float few[window] = {};
  if (n < window) {
    std::memcpy(few, x, static_cast<size_t>(n) * sizeof(float));
    x = few, n = window;
  }
  for (int64_t i = 0; i < count; i += W) {
    // the last vector overlaps the one before it, so some elements are computed twice
    if (i + W > count) i = count - W;
    const int64_t end = i + W - 1;
    const int32_t first = std::min({low[i], low[end], static_cast<int32_t>(n - window)}),
                  last = std::max(high[i], high[end]);
    const bool near = last - first < window;
    const V a = near ? pick(x + first, load(low + i) - first) : pick(x, low + i),
            b = near ? pick(x + first, load(high + i) - first) : pick(x, high + i);
    const V sum = product(a, load(u + i)) + product(b, load(v + i));
    past ? stream_store(y + i, sum) : store(y + i, sum);
  }
}
#else
constexpr decltype(ResizeRows::elements) elements = nullptr;
#endif

}  // namespace

constinit const ResizeRows resize_rows{blend, pixels, narrowest, elements};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
