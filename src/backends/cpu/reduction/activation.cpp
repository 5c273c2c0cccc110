// softmax and log_softmax along an axis, and their gradients with respect to the input x, given the incoming gradient
// g:
//
//   softmax:      s (g - Σ g s)
//   log_softmax:  g - s Σ g
//
// Here s = softmax(x), and Σ sums along the axis. Element-wise activations are part of fused element-wise kernels.

#include <cmath>

#include "backends/cpu/reduction/softmax.h"

namespace mpsgraph::cpu {
namespace {

AxisSplit split_of(const Lowering& lowering) { return {lowering.output().dims, lowering.attributes().integer("axis")}; }

std::unique_ptr<Kernel> lower_softmax(Lowering& lowering) {
  lowering.may_share(0, 0);
  return float_kernel<1>(lowering, 0, [s = split_of(lowering)](auto type) {
    using V = typename decltype(type)::type;
    return [s, exponent = Exponent<V>()](const std::array<const V*, 1>& in, V* y, V*) {
      for_wide_softmax_units(s, [&](const SoftmaxUnit& u) { softmax_unit(u, exponent, in[0], y); });
    };
  });
}

void log_softmax_rows(const SoftmaxUnit& u, const float* x, float* y) {
  for (int64_t g = 0; g < u.groups; ++g) {
    const float* row = x + u.at(g, 0);
    const auto [largest, sum] = softmax_rows().exponents(row, u.n, nullptr);
    softmax_rows().shift(row, largest, std::log(sum), u.n, y + u.at(g, 0));
  }
}

std::unique_ptr<Kernel> lower_log_softmax(Lowering& lowering) {
  const AxisSplit s = split_of(lowering);
  return float_kernel<1>(lowering, 0, [s](auto type) {
    using V = typename decltype(type)::type;
    return [s, exponent = Exponent<V>()](const std::array<const V*, 1>& in, V* y, V*) {
      for_wide_softmax_units(s, [&](const SoftmaxUnit& u) {
        V shift[SoftmaxUnit::max_groups], sum[SoftmaxUnit::max_groups];
        if constexpr (std::is_same_v<V, float>)
          if (in_rows<V>(u)) return log_softmax_rows(u, in[0], y);
        max_groups(u, in[0], shift);
        for_elements(u, [&](int64_t g, int64_t i) { y[i] = in[0][i] - shift[g]; });
        exponent.on(u, y, y);
        sum_groups(u, sum, [&](int64_t, int64_t i) { return y[i]; });
        for (int64_t g = 0; g < u.groups; ++g) sum[g] = std::log(sum[g]);
        for_elements(u, [&](int64_t g, int64_t i) { y[i] = (in[0][i] - shift[g]) - sum[g]; });
      });
    };
  });
}

// Build the gradient kernel whose inputs are the incoming gradient and the input of softmax.
std::unique_ptr<Kernel> lower_softmax_gradient(Lowering& lowering) {
  return float_kernel<2>(lowering, 0, [s = split_of(lowering)](auto type) {
    using V = typename decltype(type)::type;
    return [s, exponent = Exponent<V>()](const std::array<const V*, 2>& in, V* y, V*) {
      for_wide_softmax_units(s, [&](const SoftmaxUnit& u) {
        V dot[SoftmaxUnit::max_groups];
        softmax_unit(u, exponent, in[1], y);
        if constexpr (std::is_same_v<V, float>)
          if (in_rows<V>(u)) {
            for (int64_t at = u.first; at < u.first + u.groups * u.n; at += u.n)
              softmax_rows().gradient(in[0] + at, y + at, u.n, y + at);
            return;
          }
        sum_groups(u, dot, [&](int64_t, int64_t i) { return in[0][i] * y[i]; });
        for_elements(u, [&](int64_t g, int64_t i) { y[i] *= in[0][i] - dot[g]; });
      });
    };
  });
}

// Build the gradient kernel whose inputs are the incoming gradient and the result of the forward operation.
std::unique_ptr<Kernel> lower_gradient_of_result(Lowering& lowering) {
  const AxisSplit s = split_of(lowering);
  lowering.may_share(0, 0);
  lowering.may_share(0, 1);
  return kernel(
      [s, g = lowering.input(0).slot, result = lowering.input(1).slot, dx = lowering.output().slot](Frame& f) {
        const float *incoming = f.at<float>(g), *x = f.at<float>(result);
        float* y = f.at<float>(dx);
        for_wide_softmax_units(s, [&](const SoftmaxUnit& u) {
          float dot[SoftmaxUnit::max_groups];
          if (u.rows()) {
            for (int64_t at = u.first; at < u.first + u.groups * u.n; at += u.n)
              softmax_rows().gradient(incoming + at, x + at, u.n, y + at);
            return;
          }
          sum_groups(u, dot, [&](int64_t, int64_t i) { return incoming[i] * x[i]; });
          for_elements(u, [&](int64_t group, int64_t i) { y[i] = x[i] * (incoming[i] - dot[group]); });
        });
      });
}

std::unique_ptr<Kernel> lower_log_softmax_gradient(Lowering& lowering) {
  return float_kernel<2>(lowering, 0, [s = split_of(lowering)](auto type) {
    using V = typename decltype(type)::type;
    return [s, exponent = Exponent<V>()](const std::array<const V*, 2>& in, V* y, V*) {
      for_wide_softmax_units(s, [&](const SoftmaxUnit& u) {
        V sum[SoftmaxUnit::max_groups];
        softmax_unit(u, exponent, in[1], y);
        sum_groups(u, sum, [&](int64_t, int64_t i) { return in[0][i]; });
        for_elements(u, [&](int64_t g, int64_t i) { y[i] = in[0][i] - y[i] * sum[g]; });
      });
    };
  });
}

}  // namespace

const Kernels activation_kernels("activation", [] {
  define_kernel("softmax", lower_softmax);
  define_kernel("softmax_gradient", lower_softmax_gradient);
  define_kernel("softmax_gradient_of_result", lower_gradient_of_result);
  define_kernel("log_softmax", lower_log_softmax);
  define_kernel("log_softmax_gradient", lower_log_softmax_gradient);
});

}  // namespace mpsgraph::cpu
