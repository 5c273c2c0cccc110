// Kernels of batch normalization, as fused by the pass 'normalize' (src/core/ops/fused_batch_normalization.cpp): they
// compute the moments, the normalization with residual and ReLU, the sums for the gradients, and the gradient with
// respect to the input.
//
// With channels last, each thread processes some of the rows, and the partial sums are combined in row order. With
// channels first, each thread processes some of the channels. The reference is a plain loop in double precision.
#include "backends/cpu/normalization/batch_normalization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu {
namespace {

// Return the batch normalization loops for this processor's instruction set.
template <class T>
const BatchNormalization<T>& loops() {
  if constexpr (std::is_same_v<T, float>)
    return float_batch_normalization();
  else
    return bfloat16_batch_normalization();
}

template <class F>
std::unique_ptr<Kernel> dispatch_data(const Lowering& lowering, DType dtype, const F& f) {
  if (dtype == DType::float32) return f(Type<float>{});
  if (dtype == DType::bfloat16) return f(Type<BFloat16>{});
  unsupported(lowering, dtype);
}

// Geometry of the input. With channels last, its rows are divided into equal parts, several per thread.
struct Geometry : Planes {
  int64_t parts;

  Geometry(const Lowering& lowering, size_t source) {
    const Operand x = lowering.input(source);
    const AxisSplit split(x.dims, lowering.attributes().integer("axis"));
    outer = split.outer, channels = split.n, inner = split.inner;
    const int64_t bytes = channels * static_cast<int64_t>(size_of(x.dtype));
    parts = std::clamp<int64_t>(outer / grain_for(bytes), 1, thread_count() > 1 ? thread_count() * 4 : 1);
  }
  // Return whether the result may be written with streaming stores: it is float32, it is too large for the caches, and
  // each row consists of whole cache lines.
  bool streaming(DType dtype) const {
    const auto row = static_cast<size_t>(channels) * sizeof(float);
    return dtype == DType::float32 && row % cache_line == 0 &&
           static_cast<size_t>(outer * inner) * row >= streaming_threshold;
  }
  bool rows_of_channels() const { return inner == 1; }
  int64_t begin(int64_t part) const { return outer * part / parts; }
  int64_t rows(int64_t part) const { return begin(part + 1) - begin(part); }
  int64_t count() const { return outer * inner; }  // returns the number of elements per channel
  // Call f(first element, number of rows) for ranges that cover all rows in parallel.
  template <class F>
  void for_rows(const F& f) const {
    const int64_t at_once = std::max<int64_t>(elements_per_poll / std::max<int64_t>(channels, 1), 1);
    parallel_parts(parts, [&](int64_t part) {
      for_polled_pieces(begin(part), begin(part + 1), at_once,
                        [&](int64_t first, int64_t end) { f(first * channels, end - first); });
    });
  }
  // Call f for all parts in parallel, and then combine(first channel, end) for ranges of channels. Both run in the same
  // parallel region, so that threads do not go to sleep in between.
  template <class F, class Combine>
  void for_parts(const F& f, const Combine& combine) const {
    const auto threads = static_cast<int>(std::min<int64_t>(parts, thread_count()));
    parallel_phases(threads, {parts, threads}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          f(i, begin(i) * channels, rows(i));
        else
          combine(channels * i / threads, channels * (i + 1) / threads);
    });
  }
  // Call f(channel) for all channels in parallel.
  template <class F>
  void for_channels(const F& f) const {
    parallel_for(channels, grain_for(outer * inner * 4), [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) f(c);
    });
  }
  // Call f(channel, element) for all elements in order.
  template <class F>
  void for_elements(const F& f) const {
    for (int64_t i = 0; i < outer * channels * inner; ++i) f(i / inner % channels, i);
  }
};

// Scratch memory of each part: two sums per channel in double, and three floats per channel.
struct PartialSums {
  Geometry geometry;
  Slot slot;

  PartialSums(Lowering& lowering, const Geometry& geometry)
      : geometry(geometry), slot(lowering.scratch(static_cast<size_t>(geometry.parts) * bytes(geometry.channels))) {}

  static size_t bytes(int64_t channels) {
    return static_cast<size_t>(channels) * (2 * sizeof(double) + 3 * sizeof(float)) + 64;
  }
  std::byte* at(const Frame& f, int64_t part) const {
    return f.pointers[slot] + static_cast<size_t>(part) * (bytes(geometry.channels) & ~size_t{63});
  }
  double* first(const Frame& f, int64_t part) const { return reinterpret_cast<double*>(at(f, part)); }
  double* second(const Frame& f, int64_t part) const { return first(f, part) + geometry.channels; }
  float* partial(const Frame& f, int64_t part) const {
    return reinterpret_cast<float*>(second(f, part) + geometry.channels);
  }
  float* near(const Frame& f, int64_t part) const { return partial(f, part) + 2 * geometry.channels; }
};

// ---- moments ----

// Convert the sums of a part, for channels [from, end). The mean replaces the first sum, and the sum of squared
// distances from the mean replaces the second.
void centre(const Frame& f, const PartialSums& sums, int64_t part, int64_t from, int64_t end) {
  const double share = 1.0 / static_cast<double>(sums.geometry.rows(part));
  double* __restrict mean = sums.first(f, part);
  double* __restrict spread = sums.second(f, part);
  const float* __restrict near = sums.near(f, part);
  for (int64_t c = from; c < end; ++c) {
    const double beyond = mean[c] * share;
    spread[c] -= mean[c] * beyond;
    mean[c] = static_cast<double>(near[c]) + beyond;
  }
}

// Combine the moments of all parts, pair by pair, with the formula of Chan, Golub, and LeVeque.
void combine_moments(const Frame& f, const PartialSums& sums, int64_t from, int64_t end, float* mean, float* variance) {
  const Geometry& g = sums.geometry;
  double* __restrict all_mean = sums.first(f, 0);
  double* __restrict all_spread = sums.second(f, 0);
  double count = static_cast<double>(g.rows(0));
  centre(f, sums, 0, from, end);
  for (int64_t part = 1; part < g.parts; ++part) {
    centre(f, sums, part, from, end);
    const double n = static_cast<double>(g.rows(part)), share = n / (count + n), weight = count * share;
    const double* __restrict own_mean = sums.first(f, part);
    const double* __restrict own_spread = sums.second(f, part);
    for (int64_t c = from; c < end; ++c) {
      const double away = own_mean[c] - all_mean[c];
      all_spread[c] += own_spread[c] + away * away * weight;
      all_mean[c] += away * share;
    }
    count += n;
  }
  for (int64_t c = from; c < end; ++c) {
    mean[c] = static_cast<float>(all_mean[c]);
    variance[c] = static_cast<float>((all_spread[c] < 0 ? 0 : all_spread[c]) / count);
  }
}

template <class T>
void plain_moments(const Geometry& g, const T* x, float* mean, float* variance) {
  std::vector<double> sums(static_cast<size_t>(g.channels)), squares(sums);
  g.for_elements([&](int64_t c, int64_t i) { sums[c] += x[i]; });
  for (double& sum : sums) sum /= static_cast<double>(g.count());
  g.for_elements([&](int64_t c, int64_t i) { squares[c] += (x[i] - sums[c]) * (x[i] - sums[c]); });
  for (int64_t c = 0; c < g.channels; ++c) {
    mean[c] = static_cast<float>(sums[c]);
    variance[c] = static_cast<float>(squares[c] / static_cast<double>(g.count()));
  }
}

std::unique_ptr<Kernel> lower_moments(Lowering& lowering) {
  const Operand x = lowering.input(0), mean = lowering.output(0), variance = lowering.output(1);
  const Geometry g(lowering, 0);
  return dispatch_data(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (lowering.reference_only())
      return kernel(
          [=](Frame& f) { plain_moments(g, f.at<T>(x.slot), f.at<float>(mean.slot), f.at<float>(variance.slot)); });
    if (!g.rows_of_channels())
      return kernel([=](Frame& f) {
        float *means = f.at<float>(mean.slot), *variances = f.at<float>(variance.slot);
        g.for_channels([&](int64_t c) { loops<T>().plane_moments(f.at<T>(x.slot), g, c, means[c], variances[c]); });
      });
    const PartialSums sums(lowering, g);
    return kernel([=](Frame& f) {
      g.for_parts(
          [&](int64_t part, int64_t first, int64_t rows) {
            ChannelMoments moments{rows, sums.near(f, part), sums.first(f, part), sums.second(f, part)};
            loops<T>().moments(f.at<T>(x.slot) + first, g.channels, sums.partial(f, part), moments);
          },
          [&](int64_t from, int64_t end) {
            combine_moments(f, sums, from, end, f.at<float>(mean.slot), f.at<float>(variance.slot));
          });
    });
  });
}

// ---- normalization; the gradient kernels recompute it where they need the mask of the ReLU ----

// Per-channel factors in scratch memory: the scale gamma / sqrt(variance + epsilon), the offset beta, and
// 1 / sqrt(variance + epsilon).
struct Scale {
  int64_t channels;
  Slot mean, variance, gamma = -1, beta = -1, scratch;
  float epsilon;

  // mean and variance are operands `first` and `first` + 1; gamma and beta, if present, follow from operand
  // `parameters` on.
  Scale(Lowering& lowering, const Geometry& g, size_t first, size_t parameters)
      : channels(g.channels),
        mean(lowering.input(first).slot),
        variance(lowering.input(first + 1).slot),
        scratch(lowering.scratch(static_cast<size_t>(3 * g.channels) * sizeof(float))),
        epsilon(static_cast<float>(lowering.attributes().real("epsilon"))) {
    if (lowering.attributes().boolean("has_gamma")) gamma = lowering.input(parameters++).slot;
    if (lowering.attributes().boolean("has_beta")) beta = lowering.input(parameters).slot;
  }
  static size_t parameters(const Lowering& lowering) {
    return static_cast<size_t>(lowering.attributes().boolean("has_gamma")) +
           static_cast<size_t>(lowering.attributes().boolean("has_beta"));
  }

  // Return 1 / sqrt(variance + epsilon) per channel. by_channel() must have been called before.
  const float* inverse_deviation(const Frame& f) const { return f.at<float>(scratch) + 2 * channels; }

  ChannelScale by_channel(const Frame& f) const {
    const float* __restrict v = f.at<float>(variance);
    float* __restrict inverse = f.at<float>(scratch) + 2 * channels;
    for (int64_t c = 0; c < channels; ++c) inverse[c] = 1.f / std::sqrt(v[c] + epsilon);
    float* __restrict scale = f.at<float>(scratch);
    float* __restrict offset = scale + channels;
    if (gamma < 0) {
      std::copy(inverse, inverse + channels, scale);
    } else {
      const float* __restrict by = f.at<float>(gamma);
      for (int64_t c = 0; c < channels; ++c) scale[c] = inverse[c] * by[c];
    }
    if (beta < 0)
      std::fill(offset, offset + channels, 0.f);
    else
      std::copy(f.at<float>(beta), f.at<float>(beta) + channels, offset);
    return {f.at<float>(mean), scale, offset};
  }
};

template <class T>
float normalized(const T& x, const ChannelScale& by, int64_t c) {
  return (static_cast<float>(x) - by.mean[c]) * by.scale[c] + by.offset[c];
}

std::unique_ptr<Kernel> lower_normalization(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Geometry g(lowering, 0);
  const Scale scale(lowering, g, 1, 3);
  const bool has_residual = lowering.attributes().boolean("has_residual");
  const bool relu = lowering.attributes().string("activation") == "relu";
  const Slot residual = has_residual ? lowering.input(3 + Scale::parameters(lowering)).slot : -1;
  lowering.may_share(0, 0);
  if (has_residual) lowering.may_share(0, 3 + Scale::parameters(lowering));
  return dispatch_data(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool plain = lowering.reference_only();
    return kernel([=](Frame& f) {
      const ChannelScale by = scale.by_channel(f);
      const T *from = f.at<T>(x.slot), *more = has_residual ? f.at<T>(residual) : nullptr;
      T* to = f.at<T>(y.slot);
      const bool past = g.streaming(y.dtype) && reinterpret_cast<uintptr_t>(to) % 64 == 0;
      if (!plain && g.rows_of_channels())
        return g.for_rows([&](int64_t first, int64_t rows) {
          loops<T>().apply(from + first, more ? more + first : nullptr, rows, g.channels, by, relu, past, to + first);
        });
      if (!plain) return g.for_channels([&](int64_t c) { loops<T>().plane_apply(from, more, g, c, by, relu, to); });
      g.for_elements([&](int64_t c, int64_t i) {
        const float v = normalized(from[i], by, c) + (more ? static_cast<float>(more[i]) : 0.f);
        to[i] = T(relu && v < 0 ? 0.f : v);
      });
    });
  });
}

// ---- gradients ----

Mask mask_of(const Lowering& lowering) {
  const std::string& mask = lowering.attributes().string("mask");
  return mask == "computed" ? Mask::computed : mask == "given" ? Mask::given : Mask::none;
}

template <class T>
void plain_sums(const Geometry& g, const GradientSource<T>& in, ChannelScale by, Mask mask, double* of_g,
                double* of_product) {
  std::fill(of_g, of_g + g.channels, 0.0);
  std::fill(of_product, of_product + g.channels, 0.0);
  g.for_elements([&](int64_t c, int64_t i) {
    float v = in.first[i];
    if (in.second) v = T(v + static_cast<float>(in.second[i]));
    if (mask == Mask::given && !(static_cast<float>(in.positive[i]) > 0)) v = 0;
    if (mask == Mask::computed && !(normalized(in.x[i], by, c) > 0)) v = 0;
    if (in.masked) in.masked[i] = T(v);
    of_g[c] += v;
    of_product[c] += static_cast<double>(v) * (static_cast<float>(in.x[i]) - by.mean[c]);
  });
}

// Compute the gradients of gamma and beta for channels [from, end) from the sums of all parts.
void combine_sums(const Frame& f, const PartialSums& sums, int64_t parts, int64_t from, int64_t end,
                  const float* __restrict inverse, float* __restrict for_gamma, float* __restrict for_beta) {
  double* __restrict of_g = sums.first(f, 0);
  double* __restrict of_product = sums.second(f, 0);
  for (int64_t part = 1; part < parts; ++part) {
    const double* __restrict g = sums.first(f, part);
    const double* __restrict product = sums.second(f, part);
    for (int64_t c = from; c < end; ++c) {
      of_g[c] += g[c];
      of_product[c] += product[c];
    }
  }
  for (int64_t c = from; c < end; ++c) {
    for_beta[c] = static_cast<float>(of_g[c]);
    for_gamma[c] = static_cast<float>(of_product[c] * static_cast<double>(inverse[c]));
  }
}

std::unique_ptr<Kernel> lower_sums(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1);
  const Operand for_gamma = lowering.output(0), for_beta = lowering.output(1);
  const Geometry g(lowering, 1);
  const Scale scale(lowering, g, 2, 4);
  const PartialSums sums(lowering, g);
  const Mask mask = mask_of(lowering);
  size_t next = 4 + Scale::parameters(lowering);
  const Slot positive = mask == Mask::given ? lowering.input(next++).slot : -1;
  const Slot second = lowering.attributes().boolean("has_second") ? lowering.input(next).slot : -1;
  const Slot masked = mask == Mask::given ? lowering.output(2).slot : -1;
  if (masked >= 0) lowering.may_share(2, 0);
  return dispatch_data(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool plain = lowering.reference_only();
    return kernel([=](Frame& f) {
      const auto at = [&](Slot slot) { return slot < 0 ? nullptr : f.at<T>(slot); };
      const GradientSource<T> all{at(incoming.slot), at(second), at(x.slot), at(positive), at(masked)};
      const ChannelScale by = scale.by_channel(f);
      double *of_g = sums.first(f, 0), *of_product = sums.second(f, 0);
      const auto combine = [&](int64_t parts, int64_t from, int64_t end) {
        combine_sums(f, sums, parts, from, end, scale.inverse_deviation(f), f.at<float>(for_gamma.slot),
                     f.at<float>(for_beta.slot));
      };
      if (!plain && g.rows_of_channels())
        return g.for_parts(
            [&](int64_t part, int64_t first, int64_t rows) {
              loops<T>().sums(all.from(first), rows, g.channels, by, mask, sums.partial(f, part), sums.first(f, part),
                              sums.second(f, part));
            },
            [&](int64_t from, int64_t end) { combine(g.parts, from, end); });
      if (plain)
        plain_sums(g, all, by, mask, of_g, of_product);
      else
        g.for_channels([&](int64_t c) { loops<T>().plane_sums(all, g, c, by, mask, of_g[c], of_product[c]); });
      combine(1, 0, g.channels);
    });
  });
}

// Computes per-channel coefficients of dx = scale (g - beta_gradient / count - n gamma_gradient / count), where
// n = (x - mean) / sqrt(variance + epsilon), and count is the number of elements per channel.
struct Slope {
  Slot for_gamma, for_beta, scratch;
  float count;

  ChannelSlope by_channel(const Frame& f, const ChannelScale& by, const float* inverse, int64_t channels) const {
    const float* __restrict gamma = f.at<float>(for_gamma);
    const float* __restrict beta = f.at<float>(for_beta);
    float* __restrict common = f.at<float>(scratch);
    float* __restrict along = common + channels;
    for (int64_t c = 0; c < channels; ++c) {
      common[c] = -by.scale[c] * (beta[c] / count);
      along[c] = -by.scale[c] * inverse[c] * (gamma[c] / count);
    }
    return {by.scale, common, along};
  }
};

std::unique_ptr<Kernel> lower_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1), y = lowering.output();
  const Geometry g(lowering, 1);
  const Scale scale(lowering, g, 2, 6);
  const Slope slope{lowering.input(4).slot, lowering.input(5).slot,
                    lowering.scratch(static_cast<size_t>(2 * g.channels) * sizeof(float)),
                    static_cast<float>(g.count())};
  const Mask mask = mask_of(lowering);
  lowering.may_share(0, 0);
  lowering.may_share(0, 1);
  return dispatch_data(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool plain = lowering.reference_only();
    return kernel([=](Frame& f) {
      const ChannelScale by = scale.by_channel(f);
      const ChannelSlope by_slope = slope.by_channel(f, by, scale.inverse_deviation(f), g.channels);
      const T *from = f.at<T>(incoming.slot), *source = f.at<T>(x.slot);
      T* to = f.at<T>(y.slot);
      const bool past = g.streaming(y.dtype) && reinterpret_cast<uintptr_t>(to) % 64 == 0;
      if (!plain && g.rows_of_channels())
        return g.for_rows([&](int64_t first, int64_t rows) {
          loops<T>().gradient(from + first, source + first, rows, g.channels, by, mask, by_slope, past, to + first);
        });
      if (!plain)
        return g.for_channels(
            [&](int64_t c) { loops<T>().plane_gradient(from, source, g, c, by, mask, by_slope, to); });
      g.for_elements([&](int64_t c, int64_t i) {
        const bool passes = mask != Mask::computed || normalized(source[i], by, c) > 0;
        const float away = static_cast<float>(source[i]) - by.mean[c];
        to[i] = T(by_slope.own[c] * (passes ? static_cast<float>(from[i]) : 0.f) + by_slope.common[c] +
                  by_slope.along[c] * away);
      });
    });
  });
}

}  // namespace

const Kernels batch_normalization_kernels("batch_normalization", [] {
  define_kernel("fused_batch_moments", lower_moments);
  define_kernel("fused_batch_normalization", lower_normalization);
  define_kernel("fused_batch_normalization_sums", lower_sums);
  define_kernel("fused_batch_normalization_gradient", lower_gradient);
});

}  // namespace mpsgraph::cpu
