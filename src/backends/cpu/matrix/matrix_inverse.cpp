// Inverses by Gauss-Jordan elimination with partial pivoting, in place.
//
// Each step makes one column a unit vector; what stands there instead is a column of the inverse, so that no second
// matrix is needed. The steps of some columns are found on these alone and then applied to the others together, as a
// product of matrices, which reads the matrix once for them. Row exchanges are undone on the columns at the end. Many
// matrices are partitioned among the threads, and so are the rows of a single large one.

#include <cmath>
#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {
namespace {

template <class V>
int64_t largest_below(const V* a, int64_t n, int64_t column) {
  int64_t pivot = column;
  for (int64_t i = column + 1; i < n; ++i)
    if (std::abs(a[i * n + column]) > std::abs(a[pivot * n + column])) pivot = i;
  return pivot;
}

constexpr int64_t block = 16;  // columns whose steps are applied to the others together

// The steps of columns [first, last), on these columns alone; rows are exchanged as wholes. The columns then hold what
// the steps together do to a matrix.
template <class V>
void eliminate(V* a, int64_t n, int64_t first, int64_t last, int64_t* exchanged) {
  for (int64_t k = first; k < last; ++k) {
    const int64_t pivot = exchanged[k] = largest_below(a, n, k);
    if (pivot != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
    V* row = a + k * n;
    const V scale = 1 / row[k];
    row[k] = 1;
    for (int64_t j = first; j < last; ++j) row[j] *= scale;
    for (int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      V* other = a + i * n;
      const V factor = other[k];
      other[k] = 0;
      for (int64_t j = first; j < last; ++j) other[j] -= factor * row[j];
    }
  }
}

// to[j] += sum over p of factors[p] * rows[p][j], in registers along a tile of columns.
template <class V>
void add_products(V* to, const V* factors, const V* rows, int64_t count, int64_t stride, int64_t begin, int64_t end) {
  typedef V Vector __attribute__((vector_size(16)));
  constexpr int64_t lanes = 16 / sizeof(V), vectors = 8;
  int64_t j = begin;
  for (; j + vectors * lanes <= end; j += vectors * lanes) {
    Vector sum[vectors];
    std::memcpy(sum, to + j, sizeof sum);
    for (int64_t p = 0; p < count; ++p) {
      Vector row[vectors];
      std::memcpy(row, rows + p * stride + j, sizeof row);
      for (int64_t v = 0; v < vectors; ++v) sum[v] += factors[p] * row[v];
    }
    std::memcpy(to + j, sum, sizeof sum);
  }
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = j; i < end; ++i) to[i] += factors[p] * rows[p * stride + i];
}

// The same of floats, in the widest vectors that are there.
void add_products(float* to, const float* factors, const float* rows, int64_t count, int64_t stride, int64_t begin,
                  int64_t end) {
  constexpr int64_t most = 512;
  float sums[most];
  for (int64_t j = begin; j < end; j += most) {
    const int64_t n = std::min(most, end - j);
    float_functions().weighted_sum(sums, factors, rows + j, stride, count, n);
    for (int64_t i = 0; i < n; ++i) to[j + i] += sums[i];
  }
}

// `pivots` holds `block` rows; parallel(n, f) calls f(begin, end) over rows: in parallel when the matrix is large and
// alone.
template <class V, class Parallel>
void invert(V* a, int64_t n, int64_t* exchanged, V* pivots, const Parallel& parallel) {
  for (int64_t first = 0; first < n; first += block) {
    const int64_t last = std::min(n, first + block), count = last - first;
    eliminate(a, n, first, last, exchanged);
    if (count == n) break;
    std::copy_n(a + first * n, count * n, pivots);
    parallel(n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        V* row = a + i * n;
        if (i >= first && i < last) std::fill(row, row + first, V(0)), std::fill(row + last, row + n, V(0));
        add_products(row, row + first, pivots, count, n, 0, first);
        add_products(row, row + first, pivots, count, n, last, n);
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
    const Slot pivots = lowering.scratch(static_cast<size_t>(parts * n * block) * sizeof(V));
    const Slot matrices = is_half_type<T> ? lowering.scratch(static_cast<size_t>(x.elements()) * sizeof(V)) : y.slot;
    return kernel([=](Frame& f) {
      V* to = f.at<V>(matrices);
      std::copy_n(f.at<const T>(x.slot), x.elements(), to);
      if (count == 1) {
        invert(to, n, f.at<int64_t>(exchanged), f.at<V>(pivots),
               [](int64_t rows, const auto& body) { parallel_for(rows, grain_for(rows * block), body); });
      } else {
        parallel_parts(parts, [&](int64_t part) {
          for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
            invert(to + i * n * n, n, f.at<int64_t>(exchanged) + part * n, f.at<V>(pivots) + part * n * block,
                   [](int64_t rows, const auto& body) { body(int64_t{0}, rows); });
        });
      }
      if constexpr (is_half_type<T>) std::copy_n(to, x.elements(), f.at<T>(y.slot));
    });
  });
}

}  // namespace

const Kernels matrix_inverse_kernels("matrix_inverse", [] { define_kernel("matrix_inverse", lower_matrix_inverse); });

}  // namespace mpsgraph::cpu
