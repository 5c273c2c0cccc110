// avg_pooling, sum_pooling, and their gradients, over two and four axes.
#include "backends/cpu/pooling/pooling.h"

namespace mpsgraph::cpu {
namespace {

// Whether the sum of a window is divided by a number of elements, so that the result is a mean (average pooling). If
// all taps are outside the source, the result is 0.
enum class Mean { yes, no };

// The factor by which the sum of a window is multiplied is a product of contributions of the windowed axes. Return the
// product for all axes but the last (axis 3), which is the same for a row of positions.
double row_factor(const PoolingPlan& p, Mean mean, const RowPosition& row) {
  if (mean == Mean::no) return 1;
  double divisor = 1;
  for (int a : {0, 1, 2}) divisor *= static_cast<double>(p.inside[a][static_cast<size_t>(row[a])].divisor);
  return divisor > 0 ? 1 / divisor : 0;
}

// Return the contribution of the last windowed axis (axis 3) to the factors of window sums, for each position along
// this axis.
std::vector<double> position_factors(const PoolingPlan& p, Mean mean) {
  std::vector<double> factors;
  for (const ops::PoolingTaps& in : p.inside[3])
    factors.push_back(mean == Mean::no ? 1 : in.divisor > 0 ? 1 / static_cast<double>(in.divisor) : 0);
  return factors;
}

struct SumPlan : PoolingPlan {
  Mean mean;
  std::vector<double> factors;  // contribution of axis 3 to the factors, indexed by position
  SumPlan(const Lowering& lowering, const Dims& source, const Dims& result)
      : PoolingPlan(lowering, source, result),
        mean(lowering.operation().is(
                 {"avg_pooling2d", "avg_pooling2d_gradient", "avg_pooling4d", "avg_pooling4d_gradient"})
                 ? Mean::yes
                 : Mean::no),
        factors(position_factors(*this, mean)) {}
};

template <class T, class V>
V run_sum(const T* x, int64_t n) {
  constexpr int64_t width = 16;
  V side[width] = {}, sum = 0;
  int64_t i = 0;
  for (; i + width <= n; i += width)
    for (int64_t k = 0; k < width; ++k) side[k] += V(x[i + k]);
  for (; i < n; ++i) sum += V(x[i]);
  for (V part : side) sum += part;
  return sum;
}

template <class T>
void sum_row(const SumPlan& p, const T* plane, const RowPosition& row, T* out) {
  using V = Value<T>;
  const ops::Window& w = p.windows[3];
  const double by = row_factor(p, p.mean, row);
  if (p.few_long_windows()) {
    for (int64_t i = 0; i < w.output; ++i) {
      const ops::PoolingTaps& in = p.inside[3][static_cast<size_t>(i)];
      V sum = 0;
      for_outer_taps(p, row, [&](int64_t, int64_t element) {
        sum += run_sum<T, V>(plane + element + w.at(i, in.first), in.count);
      });
      out[i] = T(sum * static_cast<V>(by * p.factors[static_cast<size_t>(i)]));
    }
    return;
  }
  V sums[pooling_tile];
  for (int64_t begin = 0; begin < w.output; begin += pooling_tile) {
    const int64_t n = std::min(pooling_tile, w.output - begin);
    std::fill(sums, sums + n, V(0));
    for_row_taps(p, row, begin, begin + n, [&](int64_t, int64_t first, int64_t last, int64_t element) {
      const T* from = plane + element;
      V* to = sums + first - begin;
      if (w.stride == 1)
        for (int64_t i = 0; i < last - first; ++i) to[i] += V(from[i]);
      else
        for (int64_t i = 0; i < last - first; ++i) to[i] += V(from[i * w.stride]);
    });
    const double* factors = p.factors.data() + begin;
    for (int64_t i = 0; i < n; ++i) out[begin + i] = T(sums[i] * static_cast<V>(by * factors[i]));
  }
}

template <class T>
void sum_lanes(const SumPlan& p, const T* plane, const RowPosition& row, int64_t position, T* out) {
  using V = Value<T>;
  const auto by = static_cast<V>(row_factor(p, p.mean, row) * p.factors[static_cast<size_t>(position)]);
  if constexpr (std::is_same_v<T, float>) {
    if (few_taps(p)) {
      const FewTaps t(p, row, position);
      return float_pooling().sums(plane, t.offsets, t.taps, p.lanes, by, out);
    }
  }
  V sums[pooling_tile];
  for (int64_t lane = 0; lane < p.lanes; lane += pooling_tile) {
    const int64_t n = std::min(pooling_tile, p.lanes - lane);
    std::fill(sums, sums + n, V(0));
    for_taps(p, row, position, [&](int64_t, int64_t element) {
      const T* from = plane + element + lane;
      for (int64_t i = 0; i < n; ++i) sums[i] += V(from[i]);
    });
    for (int64_t i = 0; i < n; ++i) out[lane + i] = T(sums[i] * by);
  }
}

template <class T>
void sum_pool(const SumPlan& p, const T* x, T* y) {
  const int64_t row_size = p.row() * p.lanes;
  parallel_for(p.planes * p.rows(), grain_for(row_size * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* plane = x + unit / p.rows() * p.source;
      const RowPosition row = row_position(p, unit % p.rows());
      T* out = y + unit * row_size;
      if (p.lanes == 1)
        sum_row(p, plane, row, out);
      else
        for (int64_t i = 0; i < p.row(); ++i) sum_lanes(p, plane, row, i, out + i * p.lanes);
    }
  });
}

// Add the incoming gradient of a row of positions to all elements of the windows at these positions.
template <class T, class V>
void spread_row(const SumPlan& p, const T* incoming, const RowPosition& row, V* to) {
  const ops::Window& w = p.windows[3];
  const double by = row_factor(p, p.mean, row);
  if (p.few_long_windows()) {
    for (int64_t i = 0; i < w.output; ++i) {
      const ops::PoolingTaps& in = p.inside[3][static_cast<size_t>(i)];
      const V share = V(incoming[i]) * static_cast<V>(by * p.factors[static_cast<size_t>(i)]);
      for_outer_taps(p, row, [&](int64_t, int64_t element) {
        V* at = to + element + w.at(i, in.first);
        for (int64_t k = 0; k < in.count; ++k) at[k] += share;
      });
    }
    return;
  }
  V share[pooling_tile];
  for (int64_t begin = 0; begin < w.output; begin += pooling_tile) {
    const int64_t n = std::min(pooling_tile, w.output - begin);
    const double* factors = p.factors.data() + begin;
    for (int64_t i = 0; i < n; ++i) share[i] = V(incoming[begin + i]) * static_cast<V>(by * factors[i]);
    for_row_taps(p, row, begin, begin + n, [&](int64_t, int64_t first, int64_t last, int64_t element) {
      V* at = to + element;
      const V* from = share + first - begin;
      if (w.stride == 1)
        for (int64_t i = 0; i < last - first; ++i) at[i] += from[i];
      else
        for (int64_t i = 0; i < last - first; ++i) at[i * w.stride] += from[i];
    });
  }
}

// Add (or store, with `stores`) the incoming gradient at one position to all elements of its window, for lanes
// [begin, end).
template <class T, class V>
void spread_lanes(const SumPlan& p, const T* incoming, const RowPosition& row, int64_t position, int64_t begin,
                  int64_t end, bool stores, V* to) {
  const auto by = static_cast<V>(row_factor(p, p.mean, row) * p.factors[static_cast<size_t>(position)]);
  V share[pooling_tile];
  for (int64_t lane = begin; lane < end; lane += pooling_tile) {
    const int64_t n = std::min(pooling_tile, end - lane);
    for (int64_t i = 0; i < n; ++i) share[i] = V(incoming[lane + i]) * by;
    for_taps(p, row, position, [&](int64_t, int64_t element) {
      V* __restrict at = to + element + lane;
      if (stores)
        for (int64_t i = 0; i < n; ++i) at[i] = share[i];
      else
        for (int64_t i = 0; i < n; ++i) at[i] += share[i];
    });
  }
}

// For each axis and each source element, the range of positions whose windows contain the element.
struct Seeing {
  struct Span {
    int64_t first, count;  // first position and number of positions
  };
  std::array<std::vector<Span>, 4> spans;
  bool few = true;  // whether these windows are adjacent, and few enough for the registers of weighted_sums

  explicit Seeing(const PoolingPlan& p) {
    int64_t most = 1;
    for (size_t a = 0; a < 4; ++a) {
      const ops::Window& w = p.windows[a];
      few = few && (w.dilation == 1 || w.kernel == 1);
      most *= (w.kernel + w.stride - 1) / w.stride;
      if (!few || most > FloatPooling::max_taps) break;
      for (int64_t s = 0; s < w.input; ++s) {
        const int64_t beyond = s + w.begin - w.kernel;  // last source element before the first window that contains s
        const int64_t first = beyond < 0 ? 0 : beyond / w.stride + 1;
        spans[a].push_back({first, std::max<int64_t>(std::min(w.output, (s + w.begin) / w.stride + 1) - first, 0)});
      }
    }
    few = few && p.lanes > 1 && most <= FloatPooling::max_taps;
  }
};

// Compute lanes [begin, end) of a plane's gradient. Each element gathers from all windows that contain it, and is
// therefore written only once.
void gather_gradient(const SumPlan& p, const Seeing& seeing, const float* incoming, int64_t begin, int64_t end,
                     float* to) {
  int64_t row_offsets[FloatPooling::max_taps], offsets[FloatPooling::max_taps];
  double row_factors[FloatPooling::max_taps];
  float by[FloatPooling::max_taps];
  for (int64_t s0 = 0; s0 < p.windows[0].input; ++s0)
    for (int64_t s1 = 0; s1 < p.windows[1].input; ++s1)
      for (int64_t s2 = 0; s2 < p.windows[2].input; ++s2) {
        const auto [f0, n0] = seeing.spans[0][static_cast<size_t>(s0)];
        const auto [f1, n1] = seeing.spans[1][static_cast<size_t>(s1)];
        const auto [f2, n2] = seeing.spans[2][static_cast<size_t>(s2)];
        int64_t rows = 0;
        for (int64_t i = f0; i < f0 + n0; ++i)
          for (int64_t j = f1; j < f1 + n1; ++j)
            for (int64_t k = f2; k < f2 + n2; ++k) {
              row_offsets[rows] = i * p.result_step[0] + j * p.result_step[1] + k * p.result_step[2];
              row_factors[rows++] = row_factor(p, p.mean, {i, j, k});
            }
        float* row = to + s0 * p.source_step[0] + s1 * p.source_step[1] + s2 * p.source_step[2];
        for (int64_t s3 = 0; s3 < p.windows[3].input; ++s3) {
          const auto [f3, n3] = seeing.spans[3][static_cast<size_t>(s3)];
          int64_t taps = 0;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = f3; i < f3 + n3; ++i) {
              offsets[taps] = row_offsets[r] + i * p.result_step[3];
              by[taps++] = static_cast<float>(row_factors[r] * p.factors[static_cast<size_t>(i)]);
            }
          float_pooling().weighted_sums(incoming + begin, offsets, by, taps, end - begin,
                                        row + s3 * p.source_step[3] + begin);
        }
      }
}

template <class T>
void sum_pool_gradient(const SumPlan& p, const PoolingBlocks& b, const T* incoming, T* g, Value<T>* scratch) {
  const bool stores = p.lanes > 1 && p.disjoint && p.covering;
  for_gradient_blocks(p, b, g, scratch, !stores, [&](int64_t plane, int64_t begin, int64_t end, Value<T>* to) {
    const T* from = incoming + plane * p.result;
    for (int64_t r = 0; r < p.rows(); ++r, from += p.row() * p.lanes) {
      const RowPosition row = row_position(p, r);
      if (p.lanes == 1)
        spread_row(p, from, row, to);
      else
        for (int64_t i = 0; i < p.row(); ++i) spread_lanes(p, from + i * p.lanes, row, i, begin, end, stores, to);
    }
  });
}

std::unique_ptr<Kernel> lower_forward(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  return dispatch_wide(lowering, x.dtype, lower_forward, [&](auto type) {
    using T = typename decltype(type)::type;
    const SumPlan p(lowering, x.dims, y.dims);
    return kernel([=](Frame& f) { sum_pool(p, f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

std::unique_ptr<Kernel> lower_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), g = lowering.output();
  return dispatch_wide(lowering, g.dtype, lower_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    const SumPlan p(lowering, g.dims, incoming.dims);
    const PoolingBlocks b(p);
    if constexpr (std::is_same_v<T, float>)
      if (const Seeing seeing(p); seeing.few)
        return kernel([=](Frame& f) {
          const auto* from = f.at<const float>(incoming.slot);
          for_gradient_blocks(p, b, f.at<float>(g.slot), f.at<float>(g.slot), false,
                              [&](int64_t plane, int64_t begin, int64_t end, float* to) {
                                gather_gradient(p, seeing, from + plane * p.result, begin, end, to);
                              });
        });
    return kernel([=, scratch = gradient_scratch<T>(lowering, p, b)](Frame& f) {
      sum_pool_gradient(p, b, f.at<const T>(incoming.slot), f.at<T>(g.slot), f.at<Value<T>>(scratch));
    });
  });
}

}  // namespace

const Kernels pooling_average_kernels("pooling_average", [] {
  define_kernel("avg_pooling2d", lower_forward);
  define_kernel("avg_pooling4d", lower_forward);
  define_kernel("sum_pooling4d", lower_forward);
  define_kernel("avg_pooling2d_gradient", lower_gradient);
  define_kernel("avg_pooling4d_gradient", lower_gradient);
  define_kernel("sum_pooling4d_gradient", lower_gradient);
});

}  // namespace mpsgraph::cpu
