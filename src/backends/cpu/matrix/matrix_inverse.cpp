// Inverses by Gauss-Jordan elimination with partial pivoting, in place.
//
// Each step makes one column a unit vector; what stands there instead is a column of the inverse, so that no second
// matrix is needed. The steps of some columns are found on a packed copy of these alone (elimination.h), and then
// applied to the whole matrix together, as a product of matrices, which reads it once for them. Row exchanges are
// undone on the columns at the end. Many matrices are partitioned among the threads, and so are the rows of a single
// large one.

#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/dispatch.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/elimination.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t block = eliminated_columns;

template <class V>
Eliminate<V> elimination() {
  if constexpr (std::is_same_v<V, float>)
    return MPSGRAPH_BY_INSTRUCTION_SET(eliminate_float);
  else
    return MPSGRAPH_BY_INSTRUCTION_SET(eliminate_double);
}

// to[j] += sum over p of factors[p] * rows[p][j], j < n, in registers along a tile of columns.
template <class V>
void add_products(V* to, const V* factors, const V* rows, int64_t count, int64_t n) {
  typedef V Vector __attribute__((vector_size(16)));
  constexpr int64_t lanes = 16 / sizeof(V), vectors = 8;
  int64_t j = 0;
  for (; j + vectors * lanes <= n; j += vectors * lanes) {
    Vector sum[vectors];
    std::memcpy(sum, to + j, sizeof sum);
    for (int64_t p = 0; p < count; ++p) {
      Vector row[vectors];
      std::memcpy(row, rows + p * n + j, sizeof row);
      for (int64_t v = 0; v < vectors; ++v) sum[v] += factors[p] * row[v];
    }
    std::memcpy(to + j, sum, sizeof sum);
  }
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = j; i < n; ++i) to[i] += factors[p] * rows[p * n + i];
}

// The same of floats, in the widest vectors that are there.
void add_products(float* to, const float* factors, const float* rows, int64_t count, int64_t n) {
  constexpr int64_t most = 512;
  float sums[most];
  for (int64_t j = 0; j < n; j += most) {
    const int64_t size = std::min(most, n - j);
    float_functions().weighted_sum(sums, factors, rows + j, n, count, size);
    for (int64_t i = 0; i < size; ++i) to[j + i] += sums[i];
  }
}

// How the steps of some columns change all: each row gets the sum over p of factors[p] * row first + p of `a`. Floats
// are multiplied in tiles, but for the columns that are not enough for one. `pivots` has room for `block` rows.
template <class V>
class Application {
 public:
  Application(const V* a, int64_t n, int64_t first, int64_t count, V* pivots) : n_(n), count_(count), panels_(pivots) {
    const V* rows = a + first * n;
    if constexpr (std::is_same_v<V, float>)
      if ((tiles_ = convolution_tiles<float, float>()))
        for (; in_panels_ + tiles_->columns <= n; in_panels_ += tiles_->columns)
          tiles_->pack(rows + in_panels_, n, 1, count, tiles_->columns, panels_ + in_panels_ * count);
    rest_ = panels_ + in_panels_ * count;
    for (int64_t p = 0; p < count; ++p)
      std::copy_n(rows + p * n + in_panels_, n - in_panels_, rest_ + p * (n - in_panels_));
  }

  // To rows [begin, end) of the matrix; `factors` holds `block` numbers for each of its rows.
  void run(V* a, const V* factors, int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<V, float>)
      if (in_panels_) run_in_tiles(a, factors, begin, end);
    for (int64_t i = begin; i < end; ++i)
      add_products(a + i * n_ + in_panels_, factors + i * block, rest_, count_, n_ - in_panels_);
  }

 private:
  void run_in_tiles(float* a, const float* factors, int64_t begin, int64_t end) const {
    const float* rows[ConvolutionTiles<float, float>::most_rows];
    float* sums[ConvolutionTiles<float, float>::most_rows];
    for (int64_t i = begin; i < end;) {
      const int count = tiles_->next_rows(end - i);
      for (int r = 0; r < count; ++r) rows[r] = factors + (i + r) * block;
      for (int64_t j = 0; j < in_panels_; j += tiles_->columns) {
        for (int r = 0; r < count; ++r) sums[r] = a + (i + r) * n_ + j;
        tiles_->add(count, rows, count_, panels_ + j * count_, sums);
      }
      i += count;
    }
  }

  const int64_t n_, count_;
  V* const panels_;
  V* rest_;  // behind them, in rows
  int64_t in_panels_ = 0;  // columns
  const ConvolutionTiles<float, float>* tiles_ = nullptr;
};

// What one thread needs beside a matrix.
template <class V>
struct Workspace {
  int64_t* exchanged;
  V *columns, *pivots;
};

// parallel(n, f) calls f(begin, end) over rows: in parallel when the matrix is large and alone.
template <class V, class Parallel>
void invert(V* a, int64_t n, const Workspace<V>& work, const Parallel& parallel) {
  const Eliminate<V> eliminate = elimination<V>();
  for (int64_t first = 0; first < n; first += block) {
    const int64_t count = std::min(n - first, block);
    std::fill_n(work.columns, n * block, V(0));
    for (int64_t i = 0; i < n; ++i) std::copy_n(a + i * n + first, count, work.columns + i * block);
    eliminate(work.columns, n, first, count, work.exchanged);
    const auto put_back = [&](int64_t i) { std::copy_n(work.columns + i * block, count, a + i * n + first); };
    if (count == n) {
      for (int64_t i = 0; i < n; ++i) put_back(i);
      break;
    }
    for (int64_t k = first; k < first + count; ++k)
      if (const int64_t other = work.exchanged[k]; other != k)
        std::swap_ranges(a + k * n, a + (k + 1) * n, a + other * n);
    const Application<V> application(a, n, first, count, work.pivots);
    std::fill_n(a + first * n, count * n, V(0));
    parallel(n, [&](int64_t begin, int64_t end) {
      application.run(a, work.columns, begin, end);
      for (int64_t i = begin; i < end; ++i) put_back(i);
    });
  }
  parallel(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = n; k-- > 0;)
        if (work.exchanged[k] != k) std::swap(a[i * n + k], a[i * n + work.exchanged[k]]);
  });
}

std::unique_ptr<Kernel> lower_matrix_inverse(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const int64_t n = x.dims.back(), count = n == 0 ? 0 : x.elements() / (n * n);
  const int64_t parts = std::clamp<int64_t>(count, 1, thread_count());
  return dispatch_float(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = Value<T>;
    const Slot exchanged = lowering.scratch(static_cast<size_t>(parts * n) * sizeof(int64_t));
    const int64_t room = n * block;
    const Slot columns = lowering.scratch(static_cast<size_t>(parts * room) * sizeof(V));
    const Slot pivots = lowering.scratch(static_cast<size_t>(parts * room) * sizeof(V));
    const Slot matrices = is_half_type<T> ? lowering.scratch(static_cast<size_t>(x.elements()) * sizeof(V)) : y.slot;
    return kernel([=](Frame& f) {
      V* to = f.at<V>(matrices);
      std::copy_n(f.at<const T>(x.slot), x.elements(), to);
      const auto workspace = [&](int64_t part) {
        return Workspace<V>{f.at<int64_t>(exchanged) + part * n, f.at<V>(columns) + part * room,
                            f.at<V>(pivots) + part * room};
      };
      if (count == 1) {
        invert(to, n, workspace(0),
               [](int64_t rows, const auto& body) { parallel_for(rows, grain_for(rows * block), body); });
      } else {
        parallel_parts(parts, [&](int64_t part) {
          for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
            invert(to + i * n * n, n, workspace(part), [](int64_t rows, const auto& body) { body(int64_t{0}, rows); });
        });
      }
      if constexpr (is_half_type<T>) std::copy_n(to, x.elements(), f.at<T>(y.slot));
    });
  });
}

}  // namespace

const Kernels matrix_inverse_kernels("matrix_inverse", [] { define_kernel("matrix_inverse", lower_matrix_inverse); });

}  // namespace mpsgraph::cpu
