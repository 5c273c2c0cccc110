// max_pooling2d, its gradient and at_maxima, avg_pooling2d and its gradient, in NHWC and NCHW.
//
// Nothing is remembered between forward and backward: the gradient finds the maxima again, which is
// cheaper than writing and reading their positions. Maxima propagate NaN. Gradients run over images, so
// that overlapping windows add in a fixed order; the halves add in float. Contiguous float32 channels
// go through pooling_float.h; NCHW, whose channels are not, runs along rows of the result.

#include "core/ops/pooling.h"

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/pooling_float.h"
#include "backends/cpu/tile_functions.h"

namespace mpsgraph::cpu {
namespace {

// A pooling as loops over "planes": pixels of `lanes` contiguous channels. NHWC has one plane an image;
// NCHW has one an image and channel, with a single lane.
struct Plan {
  int64_t planes, lanes;
  int64_t sh, sw, th, tw;        // strides of row and column in source and result
  int64_t source, result;        // elements of a plane
  ops::Window wy, wx;
  std::vector<ops::PoolingTaps> ys, xs;
  bool disjoint, covering;       // no source pixel is in two windows; each is in one

  Plan(const ops::Pooling2d& p, const Dims& source_dims, const Dims& result_dims) {
    const auto axis = [](const Dims& dims, int a) { return dims[static_cast<size_t>(a)]; };
    const bool channels_last = p.channel == 3;
    lanes = channels_last ? axis(source_dims, p.channel) : 1;
    planes = axis(source_dims, p.batch) * (channels_last ? 1 : axis(source_dims, p.channel));
    wy = p.window(0, axis(source_dims, p.spatial[0])), wx = p.window(1, axis(source_dims, p.spatial[1]));
    wy.output = axis(result_dims, p.spatial[0]), wx.output = axis(result_dims, p.spatial[1]);
    sw = tw = lanes, sh = wx.input * lanes, th = wx.output * lanes;
    source = wy.input * sh, result = wy.output * th;
    for (int64_t i = 0; i < wy.output; ++i) ys.push_back(ops::pooling_taps(wy, i, p.include_zero_pad_to_average));
    for (int64_t i = 0; i < wx.output; ++i) xs.push_back(ops::pooling_taps(wx, i, p.include_zero_pad_to_average));
    disjoint = wy.stride >= wy.reach() && wx.stride >= wx.reach();
    const auto covers = [](const ops::Window& w) {
      return w.kernel == w.stride && (w.dilation == 1 || w.kernel == 1) && w.begin == 0 &&
             w.output * w.stride >= w.input;
    };
    covering = covers(wy) && covers(wx);
  }
  int64_t taps() const { return wy.kernel * wx.kernel; }
};

// The taps of one window that lie inside the source, as offsets into a plane.
struct Taps {
  int64_t first, ny, nx, step_y, step_x, divisor;
  Taps(const Plan& p, int64_t oy, int64_t ox) {
    const ops::PoolingTaps &y = p.ys[static_cast<size_t>(oy)], &x = p.xs[static_cast<size_t>(ox)];
    ny = y.count, nx = x.count, divisor = y.divisor * x.divisor;
    step_y = p.wy.dilation * p.sh, step_x = p.wx.dilation * p.sw;
    first = p.wy.at(oy, y.first) * p.sh + p.wx.at(ox, x.first) * p.sw;
  }
  bool none() const { return ny == 0 || nx == 0; }
};

constexpr int64_t tile = 128;  // lanes whose maxima are kept on the stack

template <class V>
V larger(V m, V x) {
  return (x > m) | (x != x) ? x : m;
}

// out[c] = maximum of x[tap + c] over the taps, for at most a tile of lanes.
template <class T>
void maxima(const T* x, const Taps& t, int64_t lanes, T* __restrict out) {
  using V = Value<T>;
  V m[tile];
  std::fill(m, m + lanes, -std::numeric_limits<V>::infinity());
  for (int64_t ky = 0; ky < t.ny; ++ky)
    for (int64_t kx = 0; kx < t.nx; ++kx) {
      const T* from = x + ky * t.step_y + kx * t.step_x;
      for (int64_t c = 0; c < lanes; ++c) m[c] = larger(m[c], V(from[c]));
    }
  for (int64_t c = 0; c < lanes; ++c) out[c] = T(m[c]);
}

template <class T>
using Position = std::conditional_t<sizeof(Value<T>) == 8, int64_t, int32_t>;

// k[c] = the first tap (counted row by row over those inside) that is the maximum, or the first NaN.
template <class T>
void positions(const T* x, const Taps& t, int64_t lanes, Position<T>* __restrict k) {
  using V = Value<T>;
  T rounded[tile];
  maxima(x, t, lanes, rounded);
  std::fill(k, k + lanes, 0);
  for (auto tap = static_cast<Position<T>>(t.ny * t.nx); tap-- > 0;) {  // backwards, so that the first one stays
    const T* from = x + tap / t.nx * t.step_y + tap % t.nx * t.step_x;
    for (int64_t c = 0; c < lanes; ++c) {
      const V value = from[c], m = rounded[c];
      k[c] = (value == m) | (value != value) ? tap : k[c];
    }
  }
}

const FloatMaxPooling& float_max_pooling() {
#ifdef __x86_64__
  static const bool fast = instruction_set() != "baseline";
  if (fast) return avx2::float_max_pooling;
#endif
  return baseline::float_max_pooling;
}

// The taps' offsets from the first one, for pooling_float.h; nothing when there are too many or none.
struct Offsets {
  int64_t offsets[FloatMaxPooling::max_taps];
  int64_t taps = 0;
  explicit Offsets(const Taps& t) {
    if (t.ny * t.nx > FloatMaxPooling::max_taps) return;
    for (int64_t ky = 0; ky < t.ny; ++ky)
      for (int64_t kx = 0; kx < t.nx; ++kx) offsets[taps++] = ky * t.step_y + kx * t.step_x;
  }
};

// NCHW: visit(tap of the whole kernel, first output, last output, source element of the first) for the taps of outputs
// [begin, begin + n) of a result row, cut to what lies inside the source; outputs count from `begin`.
template <class Visit>
void visit_row_taps(const Plan& p, int64_t oy, int64_t begin, int64_t n, const Visit& visit) {
  const ops::Window& w = p.wx;
  for (int64_t ky = 0; ky < p.wy.kernel; ++ky) {
    const int64_t iy = p.wy.at(oy, ky);
    if (iy < 0 || iy >= p.wy.input) continue;
    for (int64_t kx = 0; kx < w.kernel; ++kx) {
      const int64_t shift = w.begin - kx * w.dilation;  // output ox reads ox * stride - shift
      const int64_t first = std::max(begin, shift > 0 ? (shift + w.stride - 1) / w.stride : 0);
      const int64_t room = w.input - 1 + shift;
      const int64_t last = std::min(begin + n, room < 0 ? 0 : room / w.stride + 1);
      if (first < last) visit(ky * w.kernel + kx, first - begin, last - begin, iy * p.sh + w.at(first, kx));
    }
  }
}

template <class T, class V>
void take_larger(const T* x, int64_t stride, int64_t n, V* m, int32_t* k, int32_t tap) {
  const auto loop = [&](auto step) {
    for (int64_t i = 0; i < n; ++i) {
      const V v = x[i * step];
      const bool better = (v > m[i]) | (v != v) | (k[i] < 0);
      m[i] = better ? v : m[i];
      k[i] = better ? tap : k[i];
    }
  };
  if (stride == 1)
    loop(std::integral_constant<int64_t, 1>{});
  else if (stride == 2)
    loop(std::integral_constant<int64_t, 2>{});
  else
    loop(stride);
}

// m and k of up to a tile of outputs; k is -1 where a window sees no source.
template <class T>
void row_maxima(const Plan& p, const T* plane, int64_t oy, int64_t begin, int64_t n, Value<T>* m, int32_t* k) {
  std::fill(m, m + n, -std::numeric_limits<Value<T>>::infinity());
  std::fill(k, k + n, -1);
  visit_row_taps(p, oy, begin, n, [&](int64_t tap, int64_t first, int64_t last, int64_t source) {
    take_larger(plane + source, p.wx.stride, last - first, m + first, k + first, static_cast<int32_t>(tap));
  });
}

// f(output, source element of its maximum or -1, maximum) for the outputs of a result row in NCHW.
template <class T, class F>
void for_row_maxima(const Plan& p, const T* plane, int64_t oy, const F& f) {
  Value<T> m[tile];
  int32_t k[tile];
  for (int64_t begin = 0; begin < p.wx.output; begin += tile) {
    const int64_t n = std::min(tile, p.wx.output - begin);
    row_maxima(p, plane, oy, begin, n, m, k);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t ky = k[i] / p.wx.kernel, kx = k[i] % p.wx.kernel;
      f(begin + i, k[i] < 0 ? -1 : p.wy.at(oy, ky) * p.sh + p.wx.at(begin + i, kx), m[i]);
    }
  }
}

template <class T>
void max_pool(const Plan& p, const T* x, T* y) {
  parallel_for(p.planes * p.wy.output, grain_for(p.th * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t plane = unit / p.wy.output, oy = unit % p.wy.output;
      const T* from = x + plane * p.source;
      T* row = y + plane * p.result + oy * p.th;
      if (p.lanes == 1) {
        for_row_maxima(p, from, oy, [&](int64_t ox, int64_t, Value<T> m) { row[ox] = T(m); });
        continue;
      }
      for (int64_t ox = 0; ox < p.wx.output; ++ox) {
        const Taps t(p, oy, ox);
        T* out = row + ox * p.tw;
        if constexpr (std::is_same_v<T, float>) {
          const Offsets o(t);
          if (o.taps > 0) {
            float_max_pooling().maxima(from + t.first, o.offsets, o.taps, p.lanes, out);
            continue;
          }
        }
        for (int64_t c = 0; c < p.lanes; c += tile) maxima(from + t.first + c, t, std::min(tile, p.lanes - c), out + c);
      }
    }
  });
}

template <class T>
void at_maxima(const Plan& p, const T* values, const T* x, T* y) {
  parallel_for(p.planes * p.wy.output, grain_for(p.th * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t plane = unit / p.wy.output, oy = unit % p.wy.output;
      for (int64_t ox = 0; ox < p.wx.output; ++ox) {
        const Taps t(p, oy, ox);
        const int64_t from = plane * p.source + t.first;
        T* out = y + plane * p.result + oy * p.th + ox * p.tw;
        for (int64_t c = 0; c < p.lanes; c += tile) {
          const int64_t lanes = std::min(tile, p.lanes - c);
          if (t.none()) {
            std::fill(out + c, out + c + lanes, T(0));
            continue;
          }
          Position<T> k[tile];
          positions(x + from + c, t, lanes, k);
          for (int64_t i = 0; i < lanes; ++i)
            out[c + i] = values[from + k[i] / t.nx * t.step_y + k[i] % t.nx * t.step_x + c + i];
        }
      }
    }
  });
}

// The loops of both gradients: planes, and blocks of lanes when there are fewer planes than threads. `window` adds
// what one window gives to `to`, which holds V and starts as zeros unless each element is written exactly once; `row`
// adds what a row of windows gives when there is a single lane.
struct Blocks {
  int64_t blocks, parts;
  explicit Blocks(const Plan& p) {
    blocks = p.planes >= thread_count() ? 1 : std::clamp<int64_t>(p.lanes / 16, 1, thread_count());
    parts = std::clamp<int64_t>(p.planes * blocks / grain_for(p.source * 8 / blocks), 1, thread_count());
  }
};

template <class T, class Window, class Row>
void gradient(const Plan& p, const Blocks& b, T* g, [[maybe_unused]] Value<T>* scratch, const Window& window,
              const Row& row) {
  using V = Value<T>;
  const int64_t units = p.planes * b.blocks;
  parallel_parts(b.parts, [&](int64_t part) {
    for (int64_t unit = units * part / b.parts; unit < units * (part + 1) / b.parts; ++unit) {
      const int64_t plane = unit / b.blocks, block = unit % b.blocks;
      const int64_t begin = p.lanes * block / b.blocks, end = p.lanes * (block + 1) / b.blocks;
      V* to;
      if constexpr (is_half_type<T>)
        to = scratch + part * p.source;
      else
        to = g + plane * p.source;
      if (p.lanes == 1 || !(p.disjoint && p.covering)) {
        if (b.blocks == 1)
          std::fill(to, to + p.source, V(0));
        else
          for (int64_t i = 0; i < p.source; i += p.lanes) std::fill(to + i + begin, to + i + end, V(0));
      }
      for (int64_t oy = 0; oy < p.wy.output; ++oy) {
        if (p.lanes == 1) {
          row(plane, oy, to);
          continue;
        }
        for (int64_t ox = 0; ox < p.wx.output; ++ox) {
          const Taps t(p, oy, ox);
          if (t.none()) continue;
          for (int64_t c = begin; c < end; c += tile)
            window(t, to + t.first + c, plane * p.source + t.first + c, plane * p.result + oy * p.th + ox * p.tw + c,
                   std::min(tile, end - c));
        }
      }
      if constexpr (is_half_type<T>) {
        for (int64_t i = 0; i < p.source; i += p.lanes)
          for (int64_t c = begin; c < end; ++c) g[plane * p.source + i + c] = T(to[i + c]);
      }
    }
  });
}

// to[c] gets in[c] where k[c] is the tap.
template <bool add, class T, class V>
void route(const Position<T>* __restrict k, Position<T> tap, const T* __restrict in, V* __restrict to, int64_t lanes) {
  for (int64_t c = 0; c < lanes; ++c) {
    const V value = in[c], given = k[c] == tap ? value : V(0);
    to[c] = add ? to[c] + given : given;
  }
}

template <class T>
void max_pool_gradient(const Plan& p, const Blocks& b, const T* incoming, const T* x, T* g, Value<T>* scratch) {
  using V = Value<T>;
  gradient(
      p, b, g, scratch,
      [&](const Taps& t, V* to, int64_t source, int64_t result, int64_t lanes) {
        const T* in = incoming + result;
        if constexpr (std::is_same_v<T, float>) {
          const Offsets o(t);
          if (o.taps > 0)
            return float_max_pooling().gradient(x + source, in, o.offsets, o.taps, lanes, !p.disjoint, to);
        }
        Position<T> k[tile];
        positions(x + source, t, lanes, k);
        for (Position<T> tap = 0; tap < t.ny * t.nx; ++tap) {
          V* at = to + tap / t.nx * t.step_y + tap % t.nx * t.step_x;
          p.disjoint ? route<false, T>(k, tap, in, at, lanes) : route<true, T>(k, tap, in, at, lanes);
        }
      },
      [&](int64_t plane, int64_t oy, V* to) {
        for_row_maxima(p, x + plane * p.source, oy, [&](int64_t ox, int64_t element, V) {
          if (element >= 0) to[element] += V(incoming[plane * p.result + oy * p.th + ox]);
        });
      });
}

template <class T>
void avg_pool(const Plan& p, const T* x, T* y) {
  using V = Value<T>;
  parallel_for(p.planes * p.wy.output, grain_for(p.th * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t plane = unit / p.wy.output, oy = unit % p.wy.output;
      for (int64_t ox = 0; ox < p.wx.output; ++ox) {
        const Taps t(p, oy, ox);
        const V factor = t.divisor > 0 ? V(1) / static_cast<V>(t.divisor) : V(0);
        for (int64_t c0 = 0; c0 < p.lanes; c0 += tile) {
          const int64_t lanes = std::min(tile, p.lanes - c0);
          V sum[tile];
          std::fill(sum, sum + lanes, V(0));
          for (int64_t ky = 0; ky < t.ny; ++ky)
            for (int64_t kx = 0; kx < t.nx; ++kx) {
              const T* from = x + plane * p.source + t.first + ky * t.step_y + kx * t.step_x + c0;
              for (int64_t c = 0; c < lanes; ++c) sum[c] += V(from[c]);
            }
          T* out = y + plane * p.result + oy * p.th + ox * p.tw + c0;
          for (int64_t c = 0; c < lanes; ++c) out[c] = T(sum[c] * factor);
        }
      }
    }
  });
}

template <class T>
void avg_pool_gradient(const Plan& p, const Blocks& b, const T* incoming, T* g, Value<T>* scratch) {
  using V = Value<T>;
  const auto window = [&](const Taps& t, V* to, int64_t, int64_t result, int64_t lanes) {
    const V factor = V(1) / static_cast<V>(t.divisor);
    V share[tile];
    for (int64_t c = 0; c < lanes; ++c) share[c] = V(incoming[result + c]) * factor;
    for (int64_t ky = 0; ky < t.ny; ++ky)
      for (int64_t kx = 0; kx < t.nx; ++kx) {
        V* __restrict at = to + ky * t.step_y + kx * t.step_x;
        if (p.disjoint)
          for (int64_t c = 0; c < lanes; ++c) at[c] = share[c];
        else
          for (int64_t c = 0; c < lanes; ++c) at[c] += share[c];
      }
  };
  gradient(p, b, g, scratch, window, [&](int64_t plane, int64_t oy, V* to) {
    for (int64_t ox = 0; ox < p.wx.output; ++ox) {
      const Taps t(p, oy, ox);
      if (!t.none()) window(t, to + t.first, 0, plane * p.result + oy * p.th + ox, 1);
    }
  });
}

std::unique_ptr<Kernel> lower_max(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Plan p(ops::Pooling2d(lowering.attributes()), x.dims, y.dims);
    return kernel([=](Frame& f) { max_pool(p, f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

std::unique_ptr<Kernel> lower_at_maxima(Lowering& lowering) {
  const Operand values = lowering.input(0), x = lowering.input(1), y = lowering.output();
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Plan p(ops::Pooling2d(lowering.attributes()), x.dims, y.dims);
    return kernel([=](Frame& f) { at_maxima(p, f.at<const T>(values.slot), f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

std::unique_ptr<Kernel> lower_avg(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Plan p(ops::Pooling2d(lowering.attributes()), x.dims, y.dims);
    return kernel([=](Frame& f) { avg_pool(p, f.at<const T>(x.slot), f.at<T>(y.slot)); });
  });
}

// The halves gather an image's gradient in floats, one image a part.
template <class T>
Slot gradient_scratch(Lowering& lowering, const Plan& p, const Blocks& b) {
  return is_half_type<T> ? lowering.scratch(static_cast<size_t>(b.parts * p.source) * sizeof(float))
                         : lowering.output().slot;
}

std::unique_ptr<Kernel> lower_max_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1), g = lowering.output();
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Plan p(ops::Pooling2d(lowering.attributes()), x.dims, incoming.dims);
    const Blocks b(p);
    return kernel([=, scratch = gradient_scratch<T>(lowering, p, b)](Frame& f) {
      max_pool_gradient(p, b, f.at<const T>(incoming.slot), f.at<const T>(x.slot), f.at<T>(g.slot),
                        f.at<Value<T>>(scratch));
    });
  });
}

std::unique_ptr<Kernel> lower_avg_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), g = lowering.output();
  return dispatch_float(lowering, g.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Plan p(ops::Pooling2d(lowering.attributes()), g.dims, incoming.dims);
    const Blocks b(p);
    return kernel([=, scratch = gradient_scratch<T>(lowering, p, b)](Frame& f) {
      avg_pool_gradient(p, b, f.at<const T>(incoming.slot), f.at<T>(g.slot), f.at<Value<T>>(scratch));
    });
  });
}

}  // namespace

void register_pooling_kernels() {
  define_kernel("max_pooling2d", lower_max);
  define_kernel("max_pooling2d_gradient", lower_max_gradient);
  define_kernel("max_pooling2d_at_maxima", lower_at_maxima);
  define_kernel("avg_pooling2d", lower_avg);
  define_kernel("avg_pooling2d_gradient", lower_avg_gradient);
}

}  // namespace mpsgraph::cpu
