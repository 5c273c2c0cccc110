// Loops of batch_normalization.h.
//
// Several rows are processed together, so that per-channel values are
// loaded once for all of them. Sums are accumulated in float over a limited number of rows, and in double beyond.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/normalization/batch_normalization.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t W = lanes<float>;
using V = Floats;

// Number of rows processed together for sums over one tensor, for sums over two tensors, and for loops that write a
// tensor. The more tensors share the cache, the fewer rows are processed together.
constexpr int64_t summed_rows = 8, paired_rows = 4, written_rows = 2;
constexpr int64_t prefetched_bytes = 1 << 18;  // smaller tensors may be in L2 already and are not prefetched
constexpr int64_t chunk = 128;  // rows whose sums are accumulated in float before they are added to double sums

// In the functions below, the parameter pack n... is empty for a whole vector. At the end of a row, it holds the number
// of remaining lanes.
template <class T, class... N>
inline void write(T* p, V v, bool past, N... n) {
  if constexpr (std::is_same_v<T, float> && sizeof...(N) == 0)
    if (past) return stream_store(p, v);
  store(p, v, n...);
}
inline V as_stored(const float*, V v) { return v; }
inline V as_stored(const BFloat16*, V v) { return std::bit_cast<V>(bfloat16_in_upper_half(v) & 0xffff0000u); }

// Call f(number of rows, first row) for groups of rows and for the remaining single rows; the number is a compile-time
// constant. If `backwards` is set, the order is from the last row to the first, which reuses the rows that the previous
// loop left in cache.
template <int64_t group, class F>
inline void for_groups(int64_t rows, bool backwards, const F& f) {
  const int64_t groups = rows / group;
  const auto rest = [&] {
    for (int64_t row = groups * group; row < rows; ++row) f(std::integral_constant<int64_t, 1>{}, row);
  };
  if (backwards) rest();
  for (int64_t i = 0; i < groups; ++i)
    f(std::integral_constant<int64_t, group>{}, (backwards ? groups - 1 - i : i) * group);
  if (!backwards) rest();
}

// Add the float sums to the double sums, and set the float sums to zero.
inline void flush(float* __restrict partial, double* __restrict total, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) {
    total[c] += static_cast<double>(partial[c]);
    partial[c] = 0;
  }
}

// Prefetch rows that will be read for the next group. The rows of a group are read in parallel, a pattern that hardware
// prefetchers do not recognize.
template <class T>
inline void prefetch(const T* rows, int64_t elements) {
  const char* p = reinterpret_cast<const char*>(rows);
  for (const char* end = reinterpret_cast<const char*>(rows + elements); p < end; p += 64) __builtin_prefetch(p);
}

// Compute two sums per channel. terms(c, lanes...) returns a function f(i, first, second) that adds the terms of
// element i to both sums. fetch(i, elements) prefetches `elements` elements, from element i on, of all tensors that are
// read.
template <int64_t group, class Terms, class Fetch>
inline void add_up(int64_t rows, int64_t channels, float* partial, double* first, double* second, const Terms& terms,
                   const Fetch& fetch) {
  float *a = partial, *b = partial + channels;
  std::fill(partial, partial + 2 * channels, 0.f);
  std::fill(first, first + channels, 0.0);
  std::fill(second, second + channels, 0.0);
  const bool is_large = rows * channels * 4 >= prefetched_bytes;
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    for_groups<group>(std::min(chunk, rows - begin), false, [&](auto n, int64_t row) {
      if (const int64_t next = begin + row + n; is_large && next + group <= rows)
        fetch(next * channels, group * channels);
      for_lanes<float>(channels, [&](int64_t c, auto... lanes) {
        V s = load(a + c, lanes...), t = load(b + c, lanes...);
        const auto add = terms(c, lanes...);
        for (int64_t r = 0; r < n; ++r) add((begin + row + r) * channels + c, s, t);
        store(a + c, s, lanes...);
        store(b + c, t, lanes...);
      });
    });
    flush(a, first, channels);
    flush(b, second, channels);
  }
}

// ---- operations on the elements of a vector, shared by rows and planes

// The normalization factors of a vector of channels, or those of a single channel in all lanes.
struct Channel {
  V mean, scale, offset;
  template <class... N>
  Channel(const ChannelScale& by, int64_t c, N... lanes)
      : mean(load(by.mean + c, lanes...)), scale(load(by.scale + c, lanes...)), offset(load(by.offset + c, lanes...)) {}
  static Channel of_one(const ChannelScale& by, int64_t c) {
    Channel all(by, c, 1);
    all.mean = V{} + by.mean[c], all.scale = V{} + by.scale[c], all.offset = V{} + by.offset[c];
    return all;
  }
};

template <bool has_residual, bool relu, class T, class... N>
inline void apply_at(const T* x, const T* residual, T* y, bool past, const Channel& by, int64_t i, N... lanes) {
  V v = (load(x + i, lanes...) - by.mean) * by.scale + by.offset;
  if constexpr (has_residual) v += load(residual + i, lanes...);
  if constexpr (relu) v = v < 0 ? V{} : v;  // NaN is not below 0, so it stays NaN
  write(y + i, v, past, lanes...);
}

template <Mask mask, bool two, class T, class... N>
inline void sum_at(const GradientSource<T>& in, const Channel& by, int64_t i, V& sum, V& product, N... lanes) {
  const V d = load(in.x + i, lanes...) - by.mean;
  V g = load(in.first + i, lanes...);
  if constexpr (two) g = as_stored(in.second, g + load(in.second + i, lanes...));
  if constexpr (mask == Mask::computed) g = d * by.scale + by.offset > 0 ? g : V{};
  if constexpr (mask == Mask::given) {
    g = load(in.positive + i, lanes...) > 0 ? g : V{};
    store(in.masked + i, g, lanes...);
  }
  sum += g;
  product += g * d;
}

struct Slope {
  V own, common, along;
};
template <Mask mask, class T, class... N>
inline void gradient_at(const T* g, const T* x, T* dx, bool past, const Channel& by, const Slope& slope, int64_t i,
                        N... lanes) {
  const V d = load(x + i, lanes...) - by.mean;
  V v = load(g + i, lanes...);
  if constexpr (mask == Mask::computed) v = d * by.scale + by.offset > 0 ? v : V{};
  write(dx + i, slope.own * v + (slope.common + slope.along * d), past, lanes...);
}

// ---- rows of channels

template <class T>
void moments(const T* x, int64_t channels, float* partial, ChannelMoments& m) {
  float* near = m.near;
  const int64_t first = std::clamp<int64_t>(m.rows / 16, 1, 16);
  for_lanes<float>(channels, [&](int64_t c, auto... lanes) {
    V s{};
    for (int64_t row = 0; row < first; ++row) s += load(x + row * channels + c, lanes...);
    store(near + c, s / static_cast<float>(first), lanes...);
  });
  const auto terms = [=](int64_t c, auto... lanes) {
    return [=, shift = load(near + c, lanes...)](int64_t i, V& sum, V& square) {
      const V d = load(x + i, lanes...) - shift;
      sum += d;
      square += d * d;
    };
  };
  add_up<summed_rows>(m.rows, channels, partial, m.sums, m.squares, terms,
                      [=](int64_t i, int64_t elements) { prefetch(x + i, elements); });
}

template <bool has_residual, bool relu, class T>
void apply_as(const T* x, const T* residual, int64_t rows, int64_t channels, ChannelScale scale, bool past, T* y) {
  for_groups<written_rows>(rows, !past, [=](auto n, int64_t row) {
    for_lanes<float>(channels, [=](int64_t c, auto... lanes) {
      const Channel by(scale, c, lanes...);
      for (int64_t r = 0; r < n; ++r)
        apply_at<has_residual, relu>(x, residual, y, past, by, (row + r) * channels + c, lanes...);
    });
  });
}

template <class T>
void apply(const T* x, const T* residual, int64_t rows, int64_t channels, ChannelScale by, bool relu, bool past, T* y) {
  const auto loop = residual ? (relu ? apply_as<true, true, T> : apply_as<true, false, T>)
                             : (relu ? apply_as<false, true, T> : apply_as<false, false, T>);
  loop(x, residual, rows, channels, by, past, y);
  if (past) streaming_fence();
}

template <Mask mask, bool two, class T>
void sums_as(const GradientSource<T>& in, int64_t rows, int64_t channels, ChannelScale scale, float* partial,
             double* of_g, double* of_product) {
  const auto terms = [&](int64_t c, auto... lanes) {
    return [=, &in, by = Channel(scale, c, lanes...)](int64_t i, V& sum, V& product) {
      sum_at<mask, two>(in, by, i, sum, product, lanes...);
    };
  };
  add_up<paired_rows>(rows, channels, partial, of_g, of_product, terms, [&](int64_t i, int64_t elements) {
    prefetch(in.x + i, elements);
    prefetch(in.first + i, elements);
    if constexpr (two) prefetch(in.second + i, elements);
    if constexpr (mask == Mask::given) prefetch(in.positive + i, elements);
  });
}

template <class T>
void sums(const GradientSource<T>& in, int64_t rows, int64_t channels, ChannelScale by, Mask mask, float* partial,
          double* of_g, double* of_product) {
  const auto loop = mask == Mask::none       ? sums_as<Mask::none, false, T>
                    : mask == Mask::computed ? sums_as<Mask::computed, false, T>
                    : in.second              ? sums_as<Mask::given, true, T>
                                             : sums_as<Mask::given, false, T>;
  loop(in, rows, channels, by, partial, of_g, of_product);
}

template <Mask mask, class T>
void gradient_as(const T* g, const T* x, int64_t rows, int64_t channels, ChannelScale scale, ChannelSlope slopes,
                 bool past, T* dx) {
  for_groups<written_rows>(rows, !past, [=](auto n, int64_t row) {
    for_lanes<float>(channels, [=](int64_t c, auto... lanes) {
      const Channel by(scale, c, lanes...);
      const Slope slope{load(slopes.own + c, lanes...), load(slopes.common + c, lanes...),
                        load(slopes.along + c, lanes...)};
      for (int64_t r = 0; r < n; ++r) gradient_at<mask>(g, x, dx, past, by, slope, (row + r) * channels + c, lanes...);
    });
  });
}

template <class T>
void gradient(const T* g, const T* x, int64_t rows, int64_t channels, ChannelScale by, Mask mask, ChannelSlope slope,
              bool past, T* dx) {
  const auto loop = mask == Mask::computed ? gradient_as<Mask::computed, T> : gradient_as<Mask::none, T>;
  loop(g, x, rows, channels, by, slope, past, dx);
  if (past) streaming_fence();
}

// ---- planes of one channel

// Call f(element, lanes...) for vectors of the elements of channel c. Call between() after a limited number of elements
// and at the end of each plane.
template <class F, class Between>
inline void for_plane(const Planes& p, int64_t c, const F& f, const Between& between) {
  for (int64_t o = 0; o < p.outer; ++o) {
    int64_t i = (o * p.channels + c) * p.inner;
    const int64_t end = i + p.inner;
    while (i < end) {
      const int64_t stop = std::min(end, i + chunk * W);
      for (; i + W <= stop; i += W) f(i);
      if (i < stop) f(i, stop - i);
      i = stop;
      between();
    }
  }
}

template <class T>
void plane_moments(const T* x, const Planes& p, int64_t c, float& mean, float& variance) {
  const int64_t first = std::min<int64_t>(p.inner, 64);
  float near = 0;
  for (int64_t i = 0; i < first; ++i) near += static_cast<float>(x[c * p.inner + i]) / static_cast<float>(first);
  V sum{}, square{};
  double sums = 0, squares = 0;
  const auto add = [&](int64_t i, auto... lanes) {
    V d = load(x + i, lanes...) - near;
    if constexpr (sizeof...(lanes) > 0)
      for (int64_t lane = std::max<int64_t>({lanes...}); lane < W; ++lane) d[lane] = 0;
    sum += d;
    square += d * d;
  };
  for_plane(p, c, add, [&] {
    sums += double_sum_of(sum), squares += double_sum_of(square);
    sum = square = V{};
  });
  const double count = static_cast<double>(p.outer * p.inner), beyond = sums / count;
  const double spread = squares - sums * beyond;
  mean = static_cast<float>(static_cast<double>(near) + beyond);
  variance = static_cast<float>((spread < 0 ? 0 : spread) / count);
}

template <class T>
void plane_apply(const T* x, const T* residual, const Planes& p, int64_t c, ChannelScale scale, bool relu, T* y) {
  const Channel by = Channel::of_one(scale, c);
  const auto over = [&](auto with_residual, auto with_relu) {
    const auto at = [&](int64_t i, auto... lanes) {
      apply_at<with_residual, with_relu>(x, residual, y, false, by, i, lanes...);
    };
    for_plane(p, c, at, [] {});
  };
  using std::true_type, std::false_type;
  residual ? relu ? over(true_type{}, true_type{}) : over(true_type{}, false_type{})
  : relu   ? over(false_type{}, true_type{})
           : over(false_type{}, false_type{});
}

template <class T>
void plane_sums(const GradientSource<T>& in, const Planes& p, int64_t c, ChannelScale scale, Mask mask, double& of_g,
                double& of_product) {
  const Channel by = Channel::of_one(scale, c);
  V sum{}, product{};
  of_g = of_product = 0;
  const auto over = [&](auto kind, auto two) {
    const auto at = [&](int64_t i, auto... lanes) { sum_at<kind, two>(in, by, i, sum, product, lanes...); };
    for_plane(p, c, at, [&] {
      of_g += double_sum_of(sum), of_product += double_sum_of(product);
      sum = product = V{};
    });
  };
  using std::true_type, std::false_type;
  if (mask == Mask::none)
    over(std::integral_constant<Mask, Mask::none>{}, false_type{});
  else if (mask == Mask::computed)
    over(std::integral_constant<Mask, Mask::computed>{}, false_type{});
  else if (in.second)
    over(std::integral_constant<Mask, Mask::given>{}, true_type{});
  else
    over(std::integral_constant<Mask, Mask::given>{}, false_type{});
}

template <class T>
void plane_gradient(const T* g, const T* x, const Planes& p, int64_t c, ChannelScale scale, Mask mask,
                    ChannelSlope slopes, T* dx) {
  const Channel by = Channel::of_one(scale, c);
  const Slope slope{V{} + slopes.own[c], V{} + slopes.common[c], V{} + slopes.along[c]};
  const auto over = [&](auto kind) {
    for_plane(
        p, c, [&](int64_t i, auto... lanes) { gradient_at<kind>(g, x, dx, false, by, slope, i, lanes...); }, [] {});
  };
  if (mask == Mask::computed)
    over(std::integral_constant<Mask, Mask::computed>{});
  else
    over(std::integral_constant<Mask, Mask::none>{});
}

template <class T>
constexpr BatchNormalization<T> loops{moments<T>,       apply<T>,       sums<T>,       gradient<T>,
                                      plane_moments<T>, plane_apply<T>, plane_sums<T>, plane_gradient<T>};

}  // namespace

constinit const BatchNormalization<float> float_batch_normalization = loops<float>;
constinit const BatchNormalization<BFloat16> bfloat16_batch_normalization = loops<BFloat16>;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
