// Loops of layer_normalization.h.
//
// The mean, the variance, and the result are computed in separate loops
// over a row, which remains in L1. Sums are accumulated in the element type over a limited number of elements, and then
// added to sums in double.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/normalization/layer_normalization.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t block = 2048;  // elements summed in their own type before they are added to a sum in double

// Loops over vectors of T. The parameter pack n... of their helpers is empty for a whole vector. At the end of a row,
// it holds the number of remaining lanes, and the other lanes are 0.
template <class T>
struct Loops {
  static constexpr int64_t W = lanes<T>;
  using V = Vector<T>;
  using Integer = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using I = Vector<Integer>;

  static V within(V v) { return v; }
  static V within(V v, int64_t n) {
    I lane;
    for (int i = 0; i < W; ++i) lane[i] = i;
    return lane < static_cast<Integer>(n) ? v : V{};
  }
  // Return the sum over a row of the vectors that f(element, lanes...) returns.
  template <class F>
  static double sum_of(int64_t n, const F& f) {
    double sum = 0;
    for (int64_t begin = 0; begin < n; begin += block) {
      const int64_t end = std::min(n, begin + block);
      V s0{}, s1{}, s2{}, s3{};
      int64_t i = begin;
      for (; i + 4 * W <= end; i += 4 * W) s0 += f(i), s1 += f(i + W), s2 += f(i + 2 * W), s3 += f(i + 3 * W);
      for (; i + W <= end; i += W) s0 += f(i);
      if (i < end) s1 += f(i, end - i);
      sum += double_sum_of((s0 + s1) + (s2 + s3));
    }
    return sum;
  }

  static void forward(const T* x, int64_t n, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* variance) {
    const double count = static_cast<double>(n);
    const T m = static_cast<T>(sum_of(n, [=](int64_t i, auto... lanes) { return load(x + i, lanes...); }) / count);
    const T v = static_cast<T>(sum_of(n,
                                      [=](int64_t i, auto... lanes) {
                                        const V d = within(load(x + i, lanes...) - m, lanes...);
                                        return d * d;
                                      }) /
                               count);
    const T inverse = T{1} / std::sqrt(v + epsilon);
    *mean = m, *variance = v;
    const auto write = [=](auto with_gamma, auto with_beta) {
      for_lanes<T>(n, [=](int64_t i, auto... lanes) {
        V scale = V{} + inverse;
        if constexpr (with_gamma) scale *= load(gamma + i, lanes...);
        V result = (load(x + i, lanes...) - m) * scale;
        if constexpr (with_beta) result += load(beta + i, lanes...);
        store(y + i, result, lanes...);
      });
    };
    using std::true_type, std::false_type;
    gamma  ? beta ? write(true_type{}, true_type{}) : write(true_type{}, false_type{})
    : beta ? write(false_type{}, true_type{})
           : write(false_type{}, false_type{});
  }

  // Compute dx = r (h - mean(h) - n mean(h n)), where h = g gamma, n = (x - mean) r, and r = 1 / sqrt(variance +
  // epsilon).
  template <int64_t R, bool has_gamma, bool sums>
  static void backward_as(const LayerRows<T>& rows, const T* gamma, T* for_gamma, T* for_beta) {
    V mean[R], inverse[R];
    double of_h[R] = {}, of_product[R] = {};
    for (int64_t r = 0; r < R; ++r) {
      mean[r] = V{} + rows.mean[r];
      inverse[r] = V{} + T{1} / std::sqrt(rows.variance[r] + rows.epsilon);
    }
    const auto gamma_at = [=](int64_t i, auto... lanes) {
      if constexpr (has_gamma) return load(gamma + i, lanes...);
      return V{} + T{1};
    };
    for (int64_t begin = 0; begin < rows.n; begin += block) {
      const int64_t count = std::min(block, rows.n - begin);
      V h_sum[R] = {}, product_sum[R] = {};
      for_lanes<T>(count, [&](int64_t at, auto... lanes) {
        const int64_t i = begin + at;
        const V scale = gamma_at(i, lanes...);
        V to_gamma{}, to_beta{};
        for (int64_t r = 0; r < R; ++r) {
          const V g = load(rows.g[r] + i, lanes...);
          const V product = g * ((load(rows.x[r] + i, lanes...) - mean[r]) * inverse[r]);
          if constexpr (sums) to_gamma += product, to_beta += g;
          h_sum[r] += within(g * scale, lanes...);
          product_sum[r] += within(product * scale, lanes...);
        }
        if constexpr (sums) {
          store(for_gamma + i, load(for_gamma + i, lanes...) + to_gamma, lanes...);
          store(for_beta + i, load(for_beta + i, lanes...) + to_beta, lanes...);
        }
      });
      for (int64_t r = 0; r < R; ++r)
        of_h[r] += double_sum_of(h_sum[r]), of_product[r] += double_sum_of(product_sum[r]);
    }
    for (int64_t r = 0; r < R; ++r) {
      const double count = static_cast<double>(rows.n);
      const V common = V{} + static_cast<T>(of_h[r] / count), along = V{} + static_cast<T>(of_product[r] / count);
      const T *g = rows.g[r], *x = rows.x[r], *residual = rows.residual[r];
      T* dx = rows.dx[r];
      const auto write = [=, m = mean[r], by = inverse[r]](auto with_residual) {
        for_lanes<T>(rows.n, [=](int64_t i, auto... lanes) {
          const V h = load(g + i, lanes...) * gamma_at(i, lanes...);
          V result = by * ((h - common) - (load(x + i, lanes...) - m) * by * along);
          if constexpr (with_residual) result += load(residual + i, lanes...);
          store(dx + i, result, lanes...);
        });
      };
      residual ? write(std::true_type{}) : write(std::false_type{});
    }
  }

  template <int64_t R>
  static void backward_of(const LayerRows<T>& rows, const T* gamma, T* for_gamma, T* for_beta) {
    const auto loop =
        gamma ? (for_gamma ? backward_as<R, true, true> : backward_as<R, true, false>) : backward_as<R, false, false>;
    loop(rows, gamma, for_gamma, for_beta);
  }
  static void backward(const LayerRows<T>& rows, int64_t count, const T* gamma, T* for_gamma, T* for_beta) {
    if constexpr (std::is_same_v<T, float>)  // rows of float64 are processed one by one, which compiles less code
      if (count == rows_together) return backward_of<rows_together>(rows, gamma, for_gamma, for_beta);
    LayerRows<T> one = rows;
    for (int64_t r = 0; r < count; ++r) {
      one.x[0] = rows.x[r], one.g[0] = rows.g[r], one.residual[0] = rows.residual[r], one.dx[0] = rows.dx[r];
      one.mean = rows.mean + r, one.variance = rows.variance + r;
      backward_of<1>(one, gamma, for_gamma, for_beta);
    }
  }
};

}  // namespace

constinit const LayerNormalization layer_normalization{{Loops<float>::forward, Loops<float>::backward},
                                                       {Loops<double>::forward, Loops<double>::backward}};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
