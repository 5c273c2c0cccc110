// Sampling of a source at given coordinates, and the gradients with respect to the source and the coordinates.
//
// Coordinates are first converted to taps, once for all channels: up to four elements of a plane with their weights, or
// -1 for an element where the padding constant applies. Planes (NCHW) or pixels (NHWC) are then processed in parallel.
// For the gradient with respect to the source, each plane or channel is processed by one thread, so contributions to
// the same element are added in a fixed order.
#include "core/ops/sample_grid.h"

#include <cmath>
#include <limits>
#include <optional>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/sampling/sample_grid_float.h"
#include "backends/cpu/wide_kernels.h"
#include "core/ops/resize.h"
#include "core/ops/shape.h"

namespace mpsgraph::cpu {
namespace {

template <class W>
struct PointTaps {
  int32_t at[4];  // indices within a plane: top left, top right, bottom left, bottom right
  W fx, fy;  // fractions by which the point lies to the right of, and below, the top left element
};

struct SamplePlan {
  // `height` and `width` are sizes of the source, `rows` and `columns` those of the result
  int64_t batch, channels, height, width, rows, columns;
  int64_t channel, pixel;  // strides of channels and pixels in the source
  bool planar, nearest;
  ops::GridAxis x, y;
  ops::PadMode padding;
  ops::Rounding rounding;
  double constant;

  SamplePlan(const Attributes& a, const Dims& source, const Dims& coordinates)
      : batch(coordinates[0]), rows(coordinates[1]), columns(coordinates[2]) {
    const ops::GridLayout layout = ops::grid_layout(a);
    channels = source[layout.channels], height = source[layout.height], width = source[layout.width];
    planar = layout.channels == 1;
    channel = planar ? height * width : 1;
    pixel = planar ? 1 : channels;
    nearest = a.string("sampling_mode") == "nearest";
    x = ops::grid_axis(a, width, columns);
    y = ops::grid_axis(a, height, rows);
    padding = *ops::pad_mode_from_name(a.string("padding_mode"));
    rounding = *ops::rounding_from_name(a.string("nearest_rounding_mode"));
    constant = a.string("padding_mode") == "constant" ? a.real("constant_value") : 0;
    if (height * width > INT32_MAX)
      throw UnsupportedError(cat("[sample_grid] source planes must have fewer than 2^31 elements, got ", height, " x ",
                                 width, "; split the source"));
  }
  int64_t places() const { return rows * columns; }  // returns the number of sampling points per image
  int64_t image() const { return channels * height * width; }

  int64_t shown(double index, int64_t size) const {
    constexpr double far = 1e9;  // indices beyond this bound, and NaN, are outside the source
    const auto i = static_cast<int64_t>(index > -far ? std::min(index, far) : -far);
    return padding == ops::PadMode::constant && (i < 0 || i >= size) ? -1 : ops::pad_source(padding, i, size).index;
  }
  double rounded(double place) const {
    switch (rounding) {
      case ops::Rounding::round_prefer_ceil: return std::floor(place + 0.5);
      case ops::Rounding::round_prefer_floor: return std::ceil(place - 0.5);
      case ops::Rounding::ceil: return std::ceil(place);
      case ops::Rounding::floor: return std::floor(place);
      case ops::Rounding::round_to_even: return std::nearbyint(place);
      case ops::Rounding::round_to_odd: break;
    }
    return std::nearbyint(place - 1) + 1;
  }

  template <class T, class W>
  PointTaps<W> taps(const T* coordinates, int64_t row, int64_t column) const {
    const double px = x.gain * static_cast<W>(coordinates[0]) + x.start + x.step * static_cast<double>(column);
    const double py = y.gain * static_cast<W>(coordinates[1]) + y.start + y.step * static_cast<double>(row);
    const double left = nearest ? rounded(px) : std::floor(px), top = nearest ? rounded(py) : std::floor(py);
    const int64_t columns_of[2] = {shown(left, width), nearest ? -1 : shown(left + 1, width)};
    const int64_t rows_of[2] = {shown(top, height), nearest ? -1 : shown(top + 1, height)};
    PointTaps<W> taps;
    for (int i : {0, 1})
      for (int j : {0, 1})
        taps.at[2 * i + j] =
            rows_of[i] < 0 || columns_of[j] < 0 ? -1 : static_cast<int32_t>(rows_of[i] * width + columns_of[j]);
    taps.fx = nearest ? W(0) : static_cast<W>(px - left);
    taps.fy = nearest ? W(0) : static_cast<W>(py - top);
    return taps;
  }

  template <class T, class W>
  void find_taps(const T* coordinates, PointTaps<W>* taps_of) const {
    parallel_for(batch * places(), 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        taps_of[i] = taps<T, W>(coordinates + 2 * i, i / columns % rows, i % columns);
    });
  }
};

template <class W>
void weights(const PointTaps<W>& t, W* w) {
  w[0] = (1 - t.fy) * (1 - t.fx), w[1] = (1 - t.fy) * t.fx, w[2] = t.fy * (1 - t.fx), w[3] = t.fy * t.fx;
}

template <class W, class T>
W tap(const T* source, int32_t at, int64_t pixel, W constant) {
  const W value = static_cast<W>(source[std::max(at, 0) * pixel]);
  return at < 0 ? constant : value;
}

// Divide the sampling points of each image into pieces, and call f(image, first, last) in parallel for the points
// [first, last) of each piece.
template <class F>
void for_pieces(const SamplePlan& p, int64_t piece, const F& f) {
  const int64_t pieces = (p.places() + piece - 1) / piece;
  const int64_t grain = grain_for(std::min(piece, p.places()) * p.channels * 16);
  parallel_for(p.batch * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % pieces * piece;
      f(unit / pieces, first, std::min(first + piece, p.places()));
    }
  });
}

template <class T, class W>
void sample(const SamplePlan& p, const T* source, const PointTaps<W>* taps, T* y) {
  const W constant = static_cast<W>(p.constant);
  if (p.planar) {
    parallel_for(p.batch * p.channels, grain_for(p.places() * 16), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* from = source + plane * p.channel;
        const PointTaps<W>* t = taps + plane / p.channels * p.places();
        T* to = y + plane * p.places();
        for (int64_t i = 0; i < p.places(); ++i) {
          W v[4];
          if (p.nearest) {
            to[i] = static_cast<T>(tap<W>(from, t[i].at[0], 1, constant));
            continue;
          }
          for (int k = 0; k < 4; ++k) v[k] = tap<W>(from, t[i].at[k], 1, constant);
          const W above = v[0] + t[i].fx * (v[1] - v[0]), below = v[2] + t[i].fx * (v[3] - v[2]);
          to[i] = static_cast<T>(above + t[i].fy * (below - above));
        }
      }
    });
    return;
  }
  for_pieces(p, 64, [&](int64_t image, int64_t first, int64_t last) {
    const T* from = source + image * p.image();
    for (int64_t i = first; i < last; ++i) {
      const PointTaps<W>& t = taps[image * p.places() + i];
      T* to = y + (image * p.places() + i) * p.channels;
      W w[4];
      weights(t, w);
      const bool inside = t.at[0] >= 0 && t.at[1] >= 0 && t.at[2] >= 0 && t.at[3] >= 0;
      if (inside) {
        const T *a = from + t.at[0] * p.channels, *b = from + t.at[1] * p.channels;
        const T *c = from + t.at[2] * p.channels, *d = from + t.at[3] * p.channels;
        for (int64_t j = 0; j < p.channels; ++j)
          to[j] = static_cast<T>(w[0] * static_cast<W>(a[j]) + w[1] * static_cast<W>(b[j]) +
                                 w[2] * static_cast<W>(c[j]) + w[3] * static_cast<W>(d[j]));
        continue;
      }
      for (int64_t j = 0; j < p.channels; ++j) {
        W sum = 0;
        for (int k = 0; k < (p.nearest ? 1 : 4); ++k) sum += w[k] * tap<W>(from + j, t.at[k], p.channels, constant);
        to[j] = static_cast<T>(sum);
      }
    }
  });
}

template <class T, class W>
void spread_planes(const SamplePlan& p, const T* incoming, const PointTaps<W>* taps, W* y) {
  const int64_t places = p.places(), plane_size = p.height * p.width;
  parallel_for(p.batch * p.channels, grain_for(places * 16), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      W* to = y + plane * plane_size;
      std::fill_n(to, plane_size, W(0));
      const T* from = incoming + plane * places;
      const PointTaps<W>* t = taps + plane / p.channels * places;
      for (int64_t i = 0; i < places; ++i) {
        const W in = static_cast<W>(from[i]);
        const W above = (1 - t[i].fy) * in, below = t[i].fy * in, fx = t[i].fx;
        const W part[4] = {(1 - fx) * above, fx * above, (1 - fx) * below, fx * below};
        for (int k = 0; k < (p.nearest ? 1 : 4); ++k)
          if (t[i].at[k] >= 0) to[t[i].at[k]] += part[k];
      }
    }
  });
}

// Set y to zero, and then add the incoming gradient of every sampling point to the elements that the point's taps read.
template <class T, class W>
void spread(const SamplePlan& p, const T* incoming, const PointTaps<W>* taps, W* y) {
  if (p.planar) return spread_planes(p, incoming, taps, y);
  const int64_t tile = std::max<int64_t>(16, (p.channels + thread_count() - 1) / thread_count());
  const int64_t tiles = (p.channels + tile - 1) / std::max<int64_t>(tile, 1);
  parallel_for(p.batch * tiles, grain_for(tile * p.places() * 16), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / tiles, low = unit % tiles * tile, high = std::min(low + tile, p.channels);
      W* to = y + image * p.image();
      for (int64_t i = 0; i < p.height * p.width; ++i)
        std::fill(to + i * p.channels + low, to + i * p.channels + high, W(0));
      const T* from = incoming + image * p.channels * p.places();
      for (int64_t i = 0; i < p.places(); ++i) {
        const PointTaps<W>& t = taps[image * p.places() + i];
        W w[4];
        weights(t, w);
        for (int k = 0; k < (p.nearest ? 1 : 4); ++k) {
          if (t.at[k] < 0) continue;
          W* place = to + t.at[k] * p.channels;
          for (int64_t c = low; c < high; ++c) place[c] += w[k] * static_cast<W>(from[i * p.channels + c]);
        }
      }
    }
  });
}

constexpr int64_t piece = 256;  // number of points whose sums over the channels are accumulated together

template <class T, class W>
void coordinate_gradient(const SamplePlan& p, const T* incoming, const T* source, const PointTaps<W>* taps, T* y) {
  const W constant = static_cast<W>(p.constant);
  const int64_t pixel_in = p.planar ? 1 : p.channels, channel_in = p.planar ? p.places() : 1;
  for_pieces(p, piece, [&](int64_t image, int64_t first, int64_t last) {
    W by[2 * piece];
    std::fill_n(by, 2 * piece, W(0));
    const auto add = [&](int64_t i, int64_t c) {
      const PointTaps<W>& t = taps[image * p.places() + i];
      const T* from = source + image * p.image() + c * p.channel;
      W v[4];
      for (int k = 0; k < 4; ++k) v[k] = tap<W>(from, t.at[k], p.pixel, constant);
      const W in = static_cast<W>(incoming[image * p.channels * p.places() + i * pixel_in + c * channel_in]);
      by[2 * (i - first)] += in * ((1 - t.fy) * (v[1] - v[0]) + t.fy * (v[3] - v[2]));
      by[2 * (i - first) + 1] += in * ((1 - t.fx) * (v[2] - v[0]) + t.fx * (v[3] - v[1]));
    };
    if (p.planar) {
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t i = first; i < last; ++i) add(i, c);
    } else {
      for (int64_t i = first; i < last; ++i)
        for (int64_t c = 0; c < p.channels; ++c) add(i, c);
    }
    T* to = y + 2 * (image * p.places() + first);
    for (int64_t i = 0; i < last - first; ++i) {
      to[2 * i] = static_cast<T>(by[2 * i] * static_cast<W>(p.x.gain));
      to[2 * i + 1] = static_cast<T>(by[2 * i + 1] * static_cast<W>(p.y.gain));
    }
  });
}

// The vectorized loops and their parameters, for bilinear sampling with clamping or constant padding.
struct InVectors {
  FloatGridSampling sampling;
  FloatGridLoops loops;
};
std::optional<InVectors> in_vectors(const Lowering& lowering, const SamplePlan& p) {
  const bool clamps = p.padding == ops::PadMode::clamp_to_edge;
  if (p.nearest || !(clamps || p.padding == ops::PadMode::constant)) return {};
  const FloatGridLoops* loops = lowering.reference_only() ? nullptr : grid_loops();
  if (!loops) return {};
  if (p.height * p.width > std::numeric_limits<int32_t>::max()) return {};
  const auto axis = [](const ops::GridAxis& a, int64_t size) {
    return FloatGridSampling::Axis{a.gain, a.start, a.step, size};
  };
  return InVectors{{axis(p.x, p.width), axis(p.y, p.height), p.columns, p.places(), p.channels, clamps,
                    static_cast<float>(p.constant)},
                   *loops};
}
constexpr int64_t vector_piece = 64;  // points that are processed together, each with all channels

// Allocate scratch memory for the taps of all points.
template <class W>
Slot taps_slot(Lowering& lowering, const SamplePlan& p) {
  return lowering.scratch(static_cast<size_t>(p.batch * p.places()) * sizeof(PointTaps<W>));
}

std::unique_ptr<Kernel> lower_sample_grid(Lowering& lowering) {
  const Operand source = lowering.input(0), coordinates = lowering.input(1), y = lowering.output();
  const SamplePlan p(lowering.attributes(), source.dims, coordinates.dims);
  return dispatch_wide(lowering, y.dtype, lower_sample_grid, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    using W = Value<T>;
    const bool empty = source.elements() == 0;
    if constexpr (std::is_same_v<T, float>)
      if (const auto vectors = in_vectors(lowering, p); vectors && !empty)
        return kernel([=, v = *vectors](Frame& f) {
          const auto loop = p.planar ? v.loops.planes : v.loops.pixels;
          for_pieces(p, vector_piece, [&](int64_t image, int64_t first, int64_t last) {
            loop(v.sampling, f.at<const float>(source.slot) + image * p.image(),
                 f.at<const float>(coordinates.slot) + image * p.places() * 2, first, last,
                 f.at<float>(y.slot) + image * p.places() * p.channels);
          });
        });
    const Slot taps = taps_slot<W>(lowering, p);
    return kernel([=](Frame& f) {
      if (empty) {
        std::fill_n(f.at<T>(y.slot), y.elements(), T(static_cast<W>(p.constant)));
        return;
      }
      p.find_taps(f.at<const T>(coordinates.slot), f.at<PointTaps<W>>(taps));
      sample(p, f.at<const T>(source.slot), f.at<const PointTaps<W>>(taps), f.at<T>(y.slot));
    });
  });
}

std::unique_ptr<Kernel> lower_source_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), coordinates = lowering.input(1), y = lowering.output();
  const SamplePlan p(lowering.attributes(), y.dims, coordinates.dims);
  return dispatch_wide(lowering, y.dtype, lower_source_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    using W = Value<T>;
    const Slot taps = taps_slot<W>(lowering, p);
    const int64_t n = y.elements();
    return kernel([p, n, taps, incoming = incoming.slot, coordinates = coordinates.slot, y = y.slot](Frame& f) {
      if (n == 0) return;
      p.find_taps(f.at<const T>(coordinates), f.at<PointTaps<W>>(taps));
      spread(p, f.at<const T>(incoming), f.at<const PointTaps<W>>(taps), f.at<W>(y));
    });
  });
}

std::unique_ptr<Kernel> lower_coordinate_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), source = lowering.input(1), coordinates = lowering.input(2);
  const Operand y = lowering.output();
  const SamplePlan p(lowering.attributes(), source.dims, coordinates.dims);
  return dispatch_wide(lowering, y.dtype, lower_coordinate_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    using W = Value<T>;
    const bool empty = source.elements() == 0;
    if constexpr (std::is_same_v<T, float>)
      if (const auto vectors = in_vectors(lowering, p); vectors && p.planar && !empty)
        return kernel([=, v = *vectors](Frame& f) {
          for_pieces(p, vector_piece, [&](int64_t image, int64_t first, int64_t last) {
            v.loops.coordinate_gradient_of_planes(v.sampling,
                                                  f.at<const float>(incoming.slot) + image * p.channels * p.places(),
                                                  f.at<const float>(source.slot) + image * p.image(),
                                                  f.at<const float>(coordinates.slot) + image * p.places() * 2, first,
                                                  last, f.at<float>(y.slot) + image * p.places() * 2);
          });
        });
    const Slot taps = taps_slot<W>(lowering, p);
    return kernel([=](Frame& f) {
      if (empty) {
        std::fill_n(f.at<T>(y.slot), y.elements(), T(W(0)));
        return;
      }
      p.find_taps(f.at<const T>(coordinates.slot), f.at<PointTaps<W>>(taps));
      coordinate_gradient(p, f.at<const T>(incoming.slot), f.at<const T>(source.slot), f.at<const PointTaps<W>>(taps),
                          f.at<T>(y.slot));
    });
  });
}

}  // namespace

const Kernels sample_grid_kernels("sample_grid", [] {
  define_kernel("sample_grid", lower_sample_grid);
  define_kernel("sample_grid_source_gradient", lower_source_gradient);
  define_kernel("sample_grid_coordinate_gradient", lower_coordinate_gradient);
});

}  // namespace mpsgraph::cpu
