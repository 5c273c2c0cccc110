// max_pooling, its gradient, and max_pooling_at_maxima (values at the positions of the maxima), over two and four axes.
//
// The forward pass saves nothing for the backward pass: the gradient kernel finds the maxima again. Threads divide the
// planes of a gradient, or blocks of a plane's lanes, so that the contributions of overlapping windows are added in a
// fixed order. Half precision is summed in float.

#include "backends/cpu/pooling/pooling_maxima.h"

namespace mpsgraph::cpu {
namespace {

// Return the maximum of m and n contiguous elements.
template <class T>
Value<T> run_maximum(const T* x, int64_t n, Value<T> m) {
  constexpr int64_t width = 16;
  Value<T> side[width];
  std::fill(side, side + width, m);
  int64_t i = 0;
  for (; i + width <= n; i += width) take_larger(x + i, 1, width, side);
  take_larger(x + i, 1, n - i, side);
  for (int64_t k = 0; k < width; ++k) m = ((side[k] > m) | (side[k] != side[k])) ? side[k] : m;
  return m;
}

template <class T>
void max_row(const PoolingPlan& p, const T* plane, const RowPosition& row, T* out) {
  using V = Value<T>;
  constexpr V lowest = -std::numeric_limits<V>::infinity();
  const ops::Window& w = p.windows[3];
  if (p.few_long_windows()) {
    for (int64_t position = 0; position < w.output; ++position) {
      const ops::PoolingTaps& in = p.inside[3][static_cast<size_t>(position)];
      V m = lowest;
      for_outer_taps(p, row, [&](int64_t, int64_t element) {
        m = run_maximum(plane + element + w.at(position, in.first), in.count, m);
      });
      out[position] = T(m);
    }
    return;
  }
  V m[pooling_tile];
  for (int64_t begin = 0; begin < w.output; begin += pooling_tile) {
    const int64_t n = std::min(pooling_tile, w.output - begin);
    std::fill(m, m + n, lowest);
    for_row_taps(p, row, begin, begin + n, [&](int64_t, int64_t first, int64_t last, int64_t element) {
      take_larger(plane + element, w.stride, last - first, m + first - begin);
    });
    std::transform(m, m + n, out + begin, [](V value) { return T(value); });
  }
}

template <class T>
void max_lanes(const PoolingPlan& p, const T* plane, const RowPosition& row, int64_t position, T* out) {
  using V = Value<T>;
  V m[pooling_tile];
  for (int64_t lane = 0; lane < p.lanes; lane += pooling_tile) {
    const int64_t n = std::min(pooling_tile, p.lanes - lane);
    std::fill(m, m + n, -std::numeric_limits<V>::infinity());
    for_taps(p, row, position, [&](int64_t, int64_t element) { take_larger(plane + element + lane, 1, n, m); });
    std::transform(m, m + n, out + lane, [](V value) { return T(value); });
  }
}

// Compute a row of positions of the result, for windows with few taps. Adjacent positions whose windows contain the
// same taps inside the source are processed together.
void max_lanes_of_row(const PoolingPlan& p, const float* plane, const RowPosition& row, float* out) {
  const ops::Window& w = p.windows[3];
  const auto& inside = p.inside[3];
  for (int64_t position = 0, end = 0; position < w.output; position = end) {
    const ops::PoolingTaps& in = inside[static_cast<size_t>(position)];
    const auto sees_the_same = [&](const ops::PoolingTaps& other) {
      return other.first == in.first && other.count == in.count;
    };
    for (end = position + 1; end < w.output && sees_the_same(inside[static_cast<size_t>(end)]);) ++end;
    const FewTaps t(p, row, position);
    float* to = out + position * p.lanes;
    if (t.taps > 0)
      float_pooling().maxima(plane, t.offsets, t.taps, p.lanes, end - position, w.stride * p.source_step[3], to);
    else
      std::fill_n(to, (end - position) * p.lanes, -std::numeric_limits<float>::infinity());
  }
}

template <class T>
void max_pool(const PoolingPlan& p, const T* x, T* y) {
  const int64_t row_size = p.row() * p.lanes;
  parallel_for(p.planes * p.rows(), grain_for(row_size * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* plane = x + unit / p.rows() * p.source;
      const RowPosition row = row_position(p, unit % p.rows());
      T* out = y + unit * row_size;
      if (p.lanes == 1) {
        max_row(p, plane, row, out);
        continue;
      }
      if constexpr (std::is_same_v<T, float>)
        if (few_taps(p)) {
          max_lanes_of_row(p, plane, row, out);
          continue;
        }
      for (int64_t i = 0; i < p.row(); ++i) max_lanes(p, plane, row, i, out + i * p.lanes);
    }
  });
}

template <class T>
void at_maxima(const PoolingPlan& p, const T* values, const T* x, T* y) {
  const int64_t row_size = p.row() * p.lanes;
  parallel_for(p.planes * p.rows(), grain_for(row_size * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t plane = unit / p.rows();
      const T* from = values + plane * p.source;
      T* to = y + plane * p.result;
      for_maxima<Place::element>(p, x + plane * p.source, unit % p.rows(), 0, p.lanes,
                                 [&](int64_t first, int64_t n, int64_t lane, const MaximaTile<T>& tile) {
                                   for (int64_t i = 0; i < n; ++i)
                                     to[first + i] =
                                         tile.at[i] < 0 ? T(0) : from[tile.at[i] + (p.lanes > 1 ? lane + i : 0)];
                                 });
    }
  });
}

// Add the incoming gradient of one plane to the gradient of the input at the positions of the maxima, for lanes
// [begin, end).
template <class T, class V>
void route(const PoolingPlan& p, const T* incoming, const T* x, int64_t begin, int64_t end, V* to) {
  for (int64_t row = 0; row < p.rows(); ++row) {
    if constexpr (std::is_same_v<T, float>) {
      if (p.lanes > 1 && few_taps(p)) {
        const RowPosition at = row_position(p, row);
        for (int64_t i = 0; i < p.row(); ++i) {
          const FewTaps t(p, at, i);
          const float* in = incoming + (row * p.row() + i) * p.lanes + begin;
          if (t.taps > 0)
            float_pooling().gradient(x + begin, in, t.offsets, t.taps, end - begin, !p.disjoint, to + begin);
        }
        continue;
      }
    }
    for_maxima<Place::element>(p, x, row, begin, end,
                               [&](int64_t first, int64_t n, int64_t lane, const MaximaTile<T>& tile) {
                                 for (int64_t i = 0; i < n; ++i)
                                   if (tile.at[i] >= 0)
                                     to[tile.at[i] + (p.lanes > 1 ? lane + i : 0)] += V(incoming[first + i]);
                               });
  }
}

template <class T>
void max_pool_gradient(const PoolingPlan& p, const PoolingBlocks& b, const T* incoming, const T* x, T* g,
                       Value<T>* scratch) {
  // If the windows cover every element exactly once, the vector loops overwrite the gradient, so it need not be
  // cleared.
  const bool stores = std::is_same_v<T, float> && p.lanes > 1 && few_taps(p) && p.disjoint && p.covering;
  for_gradient_blocks(p, b, g, scratch, !stores, [&](int64_t plane, int64_t begin, int64_t end, Value<T>* to) {
    route(p, incoming + plane * p.result, x + plane * p.source, begin, end, to);
  });
}

std::unique_ptr<Kernel> lower_max(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  return dispatch_wide(lowering, x.dtype, lower_max, [&](auto type) {
    using T = typename decltype(type)::type;
    const PoolingPlan p(lowering, x.dims, y.dims);
    return kernel([=](Frame& f) { max_pool(p, f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

std::unique_ptr<Kernel> lower_at_maxima(Lowering& lowering) {
  const Operand values = lowering.input(0), x = lowering.input(1), y = lowering.output();
  return dispatch_wide(lowering, x.dtype, lower_at_maxima, [&](auto type) {
    using T = typename decltype(type)::type;
    const PoolingPlan p(lowering, x.dims, y.dims);
    return kernel([=](Frame& f) { at_maxima(p, f.at<const T>(values.slot), f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

std::unique_ptr<Kernel> lower_max_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1), g = lowering.output();
  return dispatch_wide(lowering, x.dtype, lower_max_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    const PoolingPlan p(lowering, x.dims, incoming.dims);
    const PoolingBlocks b(p);
    return kernel([=, scratch = gradient_scratch<T>(lowering, p, b)](Frame& f) {
      max_pool_gradient(p, b, f.at<const T>(incoming.slot), f.at<const T>(x.slot), f.at<T>(g.slot),
                        f.at<Value<T>>(scratch));
    });
  });
}

}  // namespace

const Kernels pooling_kernels("pooling", [] {
  for (const auto& [max, gradient, at] :
       {std::array<Kind, 3>{"max_pooling2d", "max_pooling2d_gradient", "max_pooling2d_at_maxima"},
        std::array<Kind, 3>{"max_pooling4d", "max_pooling4d_gradient", "max_pooling4d_at_maxima"}}) {
    define_kernel(max, lower_max);
    define_kernel(gradient, lower_max_gradient);
    define_kernel(at, lower_at_maxima);
  }
});

}  // namespace mpsgraph::cpu
