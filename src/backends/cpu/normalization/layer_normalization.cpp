// Kernels of layer normalization, as fused by the pass 'normalize' (src/core/ops/fused_layer_normalization.cpp): one
// computes the normalized rows with their mean and variance, and the other computes all gradients. Each kernel reads
// its operands from memory once.
//
// The rows are divided into parts in a way that depends only on sizes. Threads process the parts, and the parts' sums
// for the gradients of gamma and beta are combined in order. T is the type of the computation, float32 or float64. Rows
// of half precision are converted to float32 in scratch memory, and the results are converted back. The reference is a
// plain loop in double precision.
#include "backends/cpu/normalization/layer_normalization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// maximum number of rows whose contributions to the gradients of gamma and beta are summed in T, before they are added
// to sums in double
constexpr int64_t rows_in_own = 64;
constexpr int64_t most_parts = 32;

template <class T>
const LayerLoops<T>& layer_loops() {
  return layer_normalization().template of<T>();
}

// The rows of the input, divided into parts.
struct Rows {
  DType dtype;
  int64_t count = 1, n = 1, parts;

  Rows(const Lowering& lowering, const Operand& x) : dtype(x.dtype) {
    const int64_t axis = lowering.attributes().integer("axis");
    for (size_t i = 0; i < x.dims.size(); ++i) (static_cast<int64_t>(i) < axis ? count : n) *= x.dims[i];
    parts = std::clamp<int64_t>(count / std::max(grain_for(n * 8), rows_together), 1, most_parts);
  }
  int64_t begin(int64_t part) const { return count * part / parts; }
  int64_t bytes() const { return n * static_cast<int64_t>(size_of(dtype)); }
};

// Scratch memory of each thread for half-precision rows converted to float32. Rows that already have type T are used in
// place.
template <class T>
class WideRows {
 public:
  WideRows(Lowering& lowering, const Rows& rows, int64_t each)
      : rows_(rows),
        each_(size_of(rows.dtype) == sizeof(T) ? 0 : each),
        widen_(cast_function(rows.dtype, DType::float32)),
        narrow_(cast_function(DType::float32, rows.dtype)),
        slot_(each_ ? lowering.scratch(static_cast<size_t>(each_ * rows.n * thread_count()) * sizeof(T)) : -1) {}
  T* at(const Frame& f, int64_t number) const { return f.at<T>(slot_) + (thread_number() * each_ + number) * rows_.n; }
  // Return `count` consecutive rows of `data` in type T. If they have to be converted, the result is in scratch memory,
  // from row `number` on.
  const T* read(const Frame& f, Slot data, int64_t row, int64_t number, int64_t count = 1) const {
    const std::byte* from = f.pointers[data] + row * rows_.bytes();
    if (!each_) return reinterpret_cast<const T*>(from);
    const void* in = from;
    widen_(at(f, number), &in, count * rows_.n);
    return at(f, number);
  }
  // Return the address where the caller must write result rows. If this is scratch memory, write() converts the rows
  // and stores them at their destination.
  T* place(const Frame& f, Slot data, int64_t row, int64_t number) const {
    return each_ ? at(f, number) : f.at<T>(data) + row * rows_.n;
  }
  void write(const Frame& f, Slot data, int64_t row, int64_t number, int64_t count = 1) const {
    if (!each_) return;
    const void* in = at(f, number);
    narrow_(f.pointers[data] + row * rows_.bytes(), &in, count * rows_.n);
  }

 private:
  Rows rows_;
  int64_t each_;
  TileFunction widen_, narrow_;
  Slot slot_;
};

template <class T>
const T* parameter(const Frame& f, Slot slot) {
  return slot < 0 ? nullptr : f.at<T>(slot);
}

// ---- forward ----

template <class T>
void plain_forward(const T* x, int64_t n, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* variance) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double m = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - m) * (x[i] - m);
  const double v = squares / static_cast<double>(n), inverse = 1 / std::sqrt(v + static_cast<double>(epsilon));
  for (int64_t i = 0; i < n; ++i) {
    const double normalized = (x[i] - m) * inverse;
    y[i] = static_cast<T>((gamma ? gamma[i] * normalized : normalized) + (beta ? static_cast<double>(beta[i]) : 0));
  }
  *mean = static_cast<T>(m), *variance = static_cast<T>(v);
}

template <class T>
std::unique_ptr<Kernel> normalization_of(Lowering& lowering) {
  const Operand x = lowering.input(0);
  const Slot y = lowering.output(0).slot, mean = lowering.output(1).slot, variance = lowering.output(2).slot;
  const bool has_gamma = lowering.attributes().boolean("has_gamma");
  const Slot gamma = has_gamma ? lowering.input(1).slot : -1;
  const Slot beta = lowering.attributes().boolean("has_beta") ? lowering.input(1 + has_gamma).slot : -1;
  const auto epsilon = static_cast<T>(lowering.attributes().real("epsilon"));
  const Rows rows(lowering, x);
  constexpr int64_t elements_together = 4096;  // elements of short rows that are converted together
  const int64_t together =
      std::clamp<int64_t>(elements_together / std::max<int64_t>(rows.n, 1), 1, std::max<int64_t>(rows.count, 1));
  // Rows are read and written in separate buffers, so that the stores of a row do not delay the loads of the next.
  const WideRows<T> wide(lowering, rows, 2 * together);
  lowering.may_share(0, 0);
  const auto loop = lowering.reference_only() ? plain_forward<T> : layer_loops<T>().forward;
  return kernel([=, x = x.slot](Frame& f) {
    parallel_for(rows.count, grain_for(rows.n * 8), [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += together) {
        const int64_t count = std::min(together, end - first);
        const T* from = wide.read(f, x, first, 0, count);
        T* to = wide.place(f, y, first, together);
        for (int64_t row = first; row < first + count; ++row, from += rows.n, to += rows.n)
          loop(from, rows.n, parameter<T>(f, gamma), parameter<T>(f, beta), epsilon, to, f.at<T>(mean) + row,
               f.at<T>(variance) + row);
        wide.write(f, y, first, together, count);
      }
    });
  });
}

// ---- gradients ----

template <class T>
void plain_backward(const LayerRows<T>& rows, int64_t count, const T* gamma, T* for_gamma, T* for_beta) {
  const auto n = static_cast<double>(rows.n);
  for (int64_t r = 0; r < count; ++r) {
    const T *x = rows.x[r], *g = rows.g[r], *residual = rows.residual[r];
    const double m = rows.mean[r], inverse = 1 / std::sqrt(static_cast<double>(rows.variance[r]) + rows.epsilon);
    double of_h = 0, of_product = 0;
    for (int64_t i = 0; i < rows.n; ++i) {
      const double product = g[i] * (x[i] - m) * inverse, scale = gamma ? static_cast<double>(gamma[i]) : 1.0;
      of_h += g[i] * scale, of_product += product * scale;
      if (for_gamma) for_gamma[i] += static_cast<T>(product), for_beta[i] += g[i];
    }
    for (int64_t i = 0; i < rows.n; ++i) {
      const double scale = gamma ? static_cast<double>(gamma[i]) : 1.0;
      const double centred = g[i] * scale - of_h / n - (x[i] - m) * inverse * (of_product / n);
      rows.dx[r][i] = static_cast<T>(inverse * centred + (residual ? static_cast<double>(residual[i]) : 0));
    }
  }
}

// The sums of all parts for the gradients of gamma and beta. They are accumulated in T for a limited number of rows,
// and then added to sums in double.
template <class T>
struct LayerSums {
  int64_t n, parts;
  Slot slot = -1;

  LayerSums(Lowering& lowering, const Rows& rows, bool wanted) : n(rows.n), parts(rows.parts) {
    if (wanted) slot = lowering.scratch(static_cast<size_t>(parts * n) * 2 * (sizeof(double) + sizeof(T)));
  }
  bool wanted() const { return slot >= 0; }
  double* totals(const Frame& f, int64_t part) const { return f.at<double>(slot) + part * 2 * n; }
  T* own(const Frame& f, int64_t part) const {
    return reinterpret_cast<T*>(f.at<double>(slot) + parts * 2 * n) + part * 2 * n;
  }
  void clear(const Frame& f, int64_t part) const {
    if (!wanted()) return;
    std::fill_n(totals(f, part), 2 * n, 0.0);
    std::fill_n(own(f, part), 2 * n, T{0});
  }
  void flush(const Frame& f, int64_t part) const {
    if (!wanted()) return;
    double* __restrict to = totals(f, part);
    T* __restrict from = own(f, part);
    for (int64_t i = 0; i < 2 * n; ++i) to[i] += static_cast<double>(from[i]), from[i] = 0;
  }
  // Add up elements [from, end) of the gradient sums of all parts. `offset` selects the sums for gamma or those for
  // beta.
  void combine(const Frame& f, int64_t from, int64_t end, int64_t offset, T* result) const {
    double* __restrict sum = totals(f, 0) + offset;
    for (int64_t part = 1; part < parts; ++part) {
      const double* __restrict more = totals(f, part) + offset;
      for (int64_t i = from; i < end; ++i) sum[i] += more[i];
    }
    for (int64_t i = from; i < end; ++i) result[i] = static_cast<T>(sum[i]);
  }
};

template <class T>
std::unique_ptr<Kernel> gradient_of(Lowering& lowering) {
  const Slot g = lowering.input(0).slot, mean = lowering.input(2).slot, variance = lowering.input(3).slot;
  const Operand x = lowering.input(1), dx = lowering.output(0);
  size_t next = 4;
  const Slot gamma = lowering.attributes().boolean("has_gamma") ? lowering.input(next++).slot : -1;
  const bool has_residual = lowering.attributes().boolean("has_residual"),
             has_sums = lowering.attributes().boolean("has_sums");
  const Slot residual = has_residual ? lowering.input(next).slot : -1;
  const Slot for_gamma = has_sums ? lowering.output(1).slot : -1, for_beta = has_sums ? lowering.output(2).slot : -1;
  const auto epsilon = static_cast<T>(lowering.attributes().real("epsilon"));
  const Rows rows(lowering, x);
  const WideRows<T> wide(lowering, rows, 3 * rows_together);
  const LayerSums<T> sums(lowering, rows, has_sums);
  lowering.may_share(0, 0);
  lowering.may_share(0, 1);
  if (has_residual) lowering.may_share(0, next);
  const auto loop = lowering.reference_only() ? plain_backward<T> : layer_loops<T>().backward;
  // Process `count` rows together. In half precision, the gradients overwrite the converted rows of g.
  const auto together = [=, x = x.slot, dx = dx.slot](Frame& f, int64_t row, int64_t count, int64_t part) {
    LayerRows<T> some{};
    some.n = rows.n, some.epsilon = epsilon;
    some.mean = f.at<T>(mean) + row, some.variance = f.at<T>(variance) + row;
    for (int64_t r = 0; r < count; ++r) {
      some.g[r] = wide.read(f, g, row + r, r);
      some.x[r] = wide.read(f, x, row + r, rows_together + r);
      some.residual[r] = has_residual ? wide.read(f, residual, row + r, 2 * rows_together + r) : nullptr;
      some.dx[r] = wide.place(f, dx, row + r, r);
    }
    T* own = has_sums ? sums.own(f, part) : nullptr;
    loop(some, count, parameter<T>(f, gamma), own, has_sums ? own + rows.n : nullptr);
    for (int64_t r = 0; r < count; ++r) wide.write(f, dx, row + r, r);
  };
  return kernel([=](Frame& f) {
    const auto threads = static_cast<int>(std::min<int64_t>(rows.parts, thread_count()));
    const int64_t columns = has_sums ? std::clamp<int64_t>(rows.n / 256, 1, threads) : 0;
    parallel_phases(threads, {rows.parts, columns}, [&](int64_t phase, Items& items) {
      for (const int64_t item : items) {
        if (phase == 1) {
          const int64_t from = rows.n * item / columns, end = rows.n * (item + 1) / columns;
          sums.combine(f, from, end, 0, f.at<T>(for_gamma));
          sums.combine(f, from, end, rows.n, f.at<T>(for_beta));
          continue;
        }
        sums.clear(f, item);
        const int64_t end = rows.begin(item + 1);
        for (int64_t row = rows.begin(item); row < end;) {
          const int64_t stop = std::min(end, row + rows_in_own);
          for (; row < stop; row += rows_together) together(f, row, std::min(rows_together, stop - row), item);
          row = stop;
          sums.flush(f, item);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> lower_layer_normalization(Lowering& lowering) {
  return lowering.input(0).dtype == DType::float64 ? normalization_of<double>(lowering)
                                                   : normalization_of<float>(lowering);
}
std::unique_ptr<Kernel> lower_layer_gradient(Lowering& lowering) {
  return lowering.input(1).dtype == DType::float64 ? gradient_of<double>(lowering) : gradient_of<float>(lowering);
}

}  // namespace

const Kernels layer_normalization_kernels("layer_normalization", [] {
  define_kernel("fused_layer_normalization", lower_layer_normalization);
  define_kernel("fused_layer_normalization_gradient", lower_layer_gradient);
});

}  // namespace mpsgraph::cpu
