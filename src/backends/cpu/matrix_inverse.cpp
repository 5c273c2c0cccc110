// Inverses by Gauss-Jordan elimination with partial pivoting, in place.
//
// Each step makes one column a unit vector; what stands there instead is a column of the inverse, so that no second
// matrix is needed. Row exchanges are undone on the columns at the end. Many matrices are shared out among the threads;
// the rows of a single large one are.

#include <cmath>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

template <class V>
int64_t largest_below(const V* a, int64_t n, int64_t column) {
  int64_t pivot = column;
  for (int64_t i = column + 1; i < n; ++i)
    if (std::abs(a[i * n + column]) > std::abs(a[pivot * n + column])) pivot = i;
  return pivot;
}

// f(begin, end) over rows: in parallel when the matrix is large and alone.
template <class V, class Rows>
void invert(V* a, int64_t n, int64_t* exchanged, const Rows& rows) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = exchanged[k] = largest_below(a, n, k);
    if (pivot != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
    V* row = a + k * n;
    const V scale = 1 / row[k];
    row[k] = 1;
    for (int64_t j = 0; j < n; ++j) row[j] *= scale;
    rows(n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i == k) continue;
        V* other = a + i * n;
        const V factor = other[k];
        other[k] = 0;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) other[j] -= factor * row[j];
      }
    });
  }
  for (int64_t k = n; k-- > 0;)
    if (exchanged[k] != k)
      for (int64_t i = 0; i < n; ++i) std::swap(a[i * n + k], a[i * n + exchanged[k]]);
}

std::unique_ptr<Kernel> lower_matrix_inverse(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const int64_t n = x.dims.back(), count = n == 0 ? 0 : x.elements() / (n * n);
  const int64_t parts = std::clamp<int64_t>(count, 1, thread_count());
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = Value<T>;
    const Slot exchanged = lowering.scratch(static_cast<size_t>(parts * n) * sizeof(int64_t));
    const Slot matrices = is_half_type<T> ? lowering.scratch(static_cast<size_t>(x.elements()) * sizeof(V)) : y.slot;
    return kernel([=](Frame& f) {
      V* to = f.at<V>(matrices);
      std::copy_n(f.at<const T>(x.slot), x.elements(), to);
      if (count == 1) {
        invert(to, n, f.at<int64_t>(exchanged),
               [](int64_t rows, const auto& body) { parallel_for(rows, grain_for(rows * int64_t{sizeof(V)}), body); });
      } else {
        parallel_parts(parts, [&](int64_t part) {
          for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
            invert(to + i * n * n, n, f.at<int64_t>(exchanged) + part * n,
                   [](int64_t rows, const auto& body) { body(int64_t{0}, rows); });
        });
      }
      if constexpr (is_half_type<T>) std::copy_n(to, x.elements(), f.at<T>(y.slot));
    });
  });
}

}  // namespace

void register_matrix_inverse_kernels() { define_kernel("matrix_inverse", lower_matrix_inverse); }

}  // namespace mpsgraph::cpu
