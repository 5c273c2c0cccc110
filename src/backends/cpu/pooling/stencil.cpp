// stencil_windows and its gradients: weighted sums, minima, and maxima over windows that lie inside the source.
//
// The loops are structured like those of pooling (planes, rows of positions or lanes, one tap after another), with a
// weight for each tap. For the gradient with respect to the source, threads divide the rows of the source, and all
// contributions to a row are added by one thread in a fixed order. The gradient with respect to the weights is a dot
// product of rows for each tap. Half precision is widened to float.
#include "backends/cpu/pooling/pooling.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

struct StencilPlan : PoolingPlan {
  // Tap indices are also element numbers of `weights`, because weights are row-major and axes omitted from the plan
  // have one tap.
  StencilPlan(const Lowering& lowering, const Dims& source, const Dims& weights, const Dims& result)
      : PoolingPlan(lowering, ops::Pooling(ops::Windows(lowering.attributes()), weights), source, result) {}
  int64_t row_size() const { return row() * lanes; }  // elements per row of results
};

// Call f(tap, element of the result's row, element of the plane, count, step in the plane) for runs of elements in one
// row of results. For all elements of a run, the tap is the same.
template <class F>
void for_runs(const PoolingPlan& p, const RowPosition& row, const F& f) {
  if (p.lanes == 1) {
    for_row_taps(p, row, 0, p.row(), [&](int64_t tap, int64_t first, int64_t last, int64_t element) {
      f(tap, first, element, last - first, p.windows[3].stride);
    });
    return;
  }
  for (int64_t i = 0; i < p.row(); ++i)
    for_taps(p, row, i, [&](int64_t tap, int64_t element) { f(tap, i * p.lanes, element, p.lanes, 1); });
}

// Compute y[i] += w * x[i * step] for each i below n.
template <class T>
void add_scaled(const T* x, int64_t step, int64_t n, T w, T* y) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) y[i] += w * x[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] += w * x[i * step];
}

template <class T>
void sum_windows(const StencilPlan& p, const T* x, const T* w, T* y) {
  const int64_t rows = p.planes * p.rows(), size = p.row_size();
  const int64_t parts = std::clamp<int64_t>(rows / grain_for(size * p.taps()), 1, thread_count());
  parallel_parts(parts, [&](int64_t part) {
    for (int64_t unit = rows * part / parts; unit < rows * (part + 1) / parts; ++unit) {
      if (unit % 16 == 0) poll_run();
      const T* plane = x + unit / p.rows() * p.source;
      T* sums = y + unit * size;
      std::fill(sums, sums + size, T(0));
      for_runs(p, row_position(p, unit % p.rows()),
               [&](int64_t tap, int64_t to, int64_t from, int64_t n, int64_t step) {
                 add_scaled(plane + from, step, n, w[tap], sums + to);
               });
    }
  });
}

// For each window, find the largest (or smallest) weighted element and the first tap that attains it. NaN counts as
// more extreme than any number.
template <bool largest, class T>
void extreme_windows(const StencilPlan& p, const T* x, const T* w, T* values, int32_t* taps) {
  parallel_for(p.planes * p.rows(), grain_for(p.row_size() * p.taps()), [&](int64_t begin, int64_t end) {
    T m[pooling_tile];
    int32_t at[pooling_tile];
    const auto take = [&](const T* from, int64_t step, int64_t n, int64_t tap, T* best, int32_t* place) {
      const T weight = w[tap];
      for (int64_t i = 0; i < n; ++i) {
        const T v = weight * from[i * step];
        const bool better =
            ((largest ? v > best[i] : v < best[i]) | ((v != v) & (best[i] == best[i]))) | (place[i] < 0);
        best[i] = better ? v : best[i];
        place[i] = better ? static_cast<int32_t>(tap) : place[i];
      }
    };
    const auto finish = [&](int64_t first, int64_t n) {
      if (values) std::copy_n(m, n, values + first);
      if (taps) std::copy_n(at, n, taps + first);
    };
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* plane = x + unit / p.rows() * p.source;
      const RowPosition row = row_position(p, unit % p.rows());
      for (int64_t i = 0; i < p.row() && p.lanes == 1; i += pooling_tile) {
        const int64_t n = std::min(pooling_tile, p.row() - i);
        std::fill(at, at + n, -1);
        for_row_taps(p, row, i, i + n, [&](int64_t tap, int64_t first, int64_t last, int64_t element) {
          take(plane + element, p.windows[3].stride, last - first, tap, m + first - i, at + first - i);
        });
        finish(unit * p.row_size() + i, n);
      }
      for (int64_t i = 0; i < p.row() && p.lanes > 1; ++i)
        for (int64_t lane = 0; lane < p.lanes; lane += pooling_tile) {
          const int64_t n = std::min(pooling_tile, p.lanes - lane);
          std::fill(at, at + n, -1);
          for_taps(p, row, i, [&](int64_t tap, int64_t element) { take(plane + element + lane, 1, n, tap, m, at); });
          finish(unit * p.row_size() + i * p.lanes + lane, n);
        }
    }
  });
}

// Call f(first tap over axis 3, row of the result) for each row of the result whose windows contain elements of this
// row of the source. The source row is given by its coordinates on the first three axes.
template <class F>
void for_seeing_rows(const PoolingPlan& p, const RowPosition& source_row, const F& f) {
  const auto& w = p.windows;
  const auto position = [&](int a, int64_t tap) {  // returns -1 if no window has this tap in the source row
    const int64_t start = source_row[a] - tap * w[a].dilation;
    return start >= 0 && start % w[a].stride == 0 && start / w[a].stride < w[a].output ? start / w[a].stride : -1;
  };
  for (int64_t i = 0; i < w[0].kernel; ++i)
    for (int64_t j = 0; j < w[1].kernel; ++j)
      for (int64_t k = 0; k < w[2].kernel; ++k) {
        const int64_t a = position(0, i), b = position(1, j), c = position(2, k);
        if (a < 0 || b < 0 || c < 0) continue;
        f(((i * w[1].kernel + j) * w[2].kernel + k) * w[3].kernel, (a * w[1].output + b) * w[2].output + c);
      }
}

template <class T>
void spread_windows(const StencilPlan& p, const T* incoming, const T* w, T* x) {
  const ops::Window& last = p.windows[3];
  const int64_t n1 = p.windows[1].input, n2 = p.windows[2].input, plane_rows = p.windows[0].input * n1 * n2;
  const int64_t rows = p.planes * plane_rows, size = last.input * p.lanes;
  const int64_t parts = std::clamp<int64_t>(rows / grain_for(size * p.taps()), 1, thread_count());
  parallel_parts(parts, [&](int64_t part) {
    for (int64_t unit = rows * part / parts; unit < rows * (part + 1) / parts; ++unit) {
      if (unit % 16 == 0) poll_run();
      const int64_t plane = unit / plane_rows, row = unit % plane_rows;
      T* sums = x + unit * size;
      std::fill(sums, sums + size, T(0));
      for_seeing_rows(p, {row / (n1 * n2), row / n2 % n1, row % n2}, [&](int64_t tap, int64_t result_row) {
        const T* from = incoming + plane * p.result + result_row * p.row_size();
        for (int64_t k = 0; k < last.kernel; ++k) {
          const T weight = w[tap + k];
          T* to = sums + k * last.dilation * p.lanes;
          if (last.stride == 1) {
            add_scaled(from, 1, p.row_size(), weight, to);
            continue;
          }
          for (int64_t i = 0; i < p.row(); ++i)
            add_scaled(from + i * p.lanes, 1, p.lanes, weight, to + i * last.stride * p.lanes);
        }
      });
    }
  });
}

// Return the dot product of a row of the incoming gradient with a row of the source, which is read with stride `step`.
template <class T>
double row_product(const T* a, const T* b, int64_t step, int64_t n) {
  constexpr int64_t width = 16;
  T side[width] = {};
  double sum = 0;
  int64_t i = 0;
  for (; i + width <= n; i += width)
    for (int64_t k = 0; k < width; ++k) side[k] += a[i + k] * b[(i + k) * step];
  for (; i < n; ++i) sum += static_cast<double>(a[i] * b[i * step]);
  for (T part : side) sum += static_cast<double>(part);
  return sum;
}

template <class T>
void weigh_windows(const StencilPlan& p, const T* incoming, const T* x, T* w) {
  const ops::Window &w0 = p.windows[0], &w1 = p.windows[1], &w2 = p.windows[2], &w3 = p.windows[3];
  parallel_for(p.taps(), grain_for(p.planes * p.result), [&](int64_t begin, int64_t end) {
    for (int64_t tap = begin; tap < end; ++tap) {
      const int64_t k3 = tap % w3.kernel, k2 = tap / w3.kernel % w2.kernel;
      const int64_t k1 = tap / (w3.kernel * w2.kernel) % w1.kernel, k0 = tap / (w3.kernel * w2.kernel * w1.kernel);
      double sum = 0;
      for (int64_t unit = 0; unit < p.planes * p.rows(); ++unit) {
        if (unit % 16 == 0) poll_run();
        const RowPosition row = row_position(p, unit % p.rows());
        const T* from = incoming + unit * p.row_size();
        const T* seen = x + unit / p.rows() * p.source + w0.at(row[0], k0) * p.source_step[0] +
                        w1.at(row[1], k1) * p.source_step[1] + w2.at(row[2], k2) * p.source_step[2] +
                        w3.at(0, k3) * p.source_step[3];
        if (p.lanes == 1) {
          sum += row_product(from, seen, w3.stride, p.row());
        } else if (w3.stride == 1) {
          sum += row_product(from, seen, 1, p.row_size());
        } else {
          for (int64_t i = 0; i < p.row(); ++i)
            sum += row_product(from + i * p.lanes, seen + i * w3.stride * p.lanes, 1, p.lanes);
        }
      }
      w[tap] = static_cast<T>(sum);
    }
  });
}

// Build a kernel with `lower` for float32 and float64. For half precision, compute in float32.
template <class F>
std::unique_ptr<Kernel> wide_kernel(Lowering& lowering, Lower by_way, const F& lower) {
  const DType dtype = lowering.input(0).dtype;
  if (const DType wide = wide_float(dtype); wide != dtype) return widened_kernel(lowering, dtype, wide, by_way);
  if (dtype == DType::float32) return lower(Type<float>());
  if (dtype == DType::float64) return lower(Type<double>());
  unsupported(lowering, dtype);
}

std::unique_ptr<Kernel> lower_windows(Lowering& lowering) {
  const Operand x = lowering.input(0), w = lowering.input(1), y = lowering.output();
  const std::string& mode = lowering.attributes().string("reduction_mode");
  return wide_kernel(lowering, lower_windows, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    const StencilPlan p(lowering, x.dims, w.dims, y.dims);
    if (mode == "sum")
      return kernel([=](Frame& f) { sum_windows(p, f.at<const T>(x.slot), f.at<const T>(w.slot), f.at<T>(y.slot)); });
    const bool largest = mode.ends_with("maximum"), tap = y.dtype == DType::int32;
    return kernel([=](Frame& f) {
      const auto run = largest ? extreme_windows<true, T> : extreme_windows<false, T>;
      run(p, f.at<const T>(x.slot), f.at<const T>(w.slot), tap ? nullptr : f.at<T>(y.slot),
          tap ? f.at<int32_t>(y.slot) : nullptr);
    });
  });
}

std::unique_ptr<Kernel> lower_data_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), w = lowering.input(1), x = lowering.output();
  return wide_kernel(lowering, lower_data_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    const StencilPlan p(lowering, x.dims, w.dims, incoming.dims);
    return kernel(
        [=](Frame& f) { spread_windows(p, f.at<const T>(incoming.slot), f.at<const T>(w.slot), f.at<T>(x.slot)); });
  });
}

std::unique_ptr<Kernel> lower_weights_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1), w = lowering.output();
  return wide_kernel(lowering, lower_weights_gradient, [&](auto type) {
    using T = typename decltype(type)::type;
    const StencilPlan p(lowering, x.dims, w.dims, incoming.dims);
    return kernel(
        [=](Frame& f) { weigh_windows(p, f.at<const T>(incoming.slot), f.at<const T>(x.slot), f.at<T>(w.slot)); });
  });
}

}  // namespace

const Kernels stencil_kernels("stencil", [] {
  define_kernel("stencil_windows", lower_windows);
  define_kernel("stencil_windows_data_gradient", lower_data_gradient);
  define_kernel("stencil_windows_weights_gradient", lower_weights_gradient);
});

}  // namespace mpsgraph::cpu
