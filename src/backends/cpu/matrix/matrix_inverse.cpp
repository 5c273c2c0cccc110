// In-place matrix inverse by Gauss-Jordan elimination with partial pivoting.
//
// Eliminating a column turns it into a unit vector, which need not be stored. A column of the inverse takes its place,
// so no second matrix is needed. A block of columns is eliminated on a packed copy of that block (elimination.h). A
// GEMM then applies the elimination to the whole matrix, which is thus read only once per block. At the end, exchanging
// columns undoes the row exchanges. The matrices or, if there is only one large matrix, its rows are divided among the
// threads.

#include <algorithm>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/elimination.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t block = eliminated_columns;
constexpr int64_t rows_of_part = 32;  // minimum rows for each thread, which packs all pivots

template <class V>
Eliminate<V> elimination() {
  if constexpr (std::is_same_v<V, float>)
    return eliminate_float();
  else
    return eliminate_double();
}

// Applies the elimination of a block of columns to all rows of `a`: to each row, adds the sum, over all p < count, of
// factors[p] times row number first + p of `a`. `pivots` has room for `block` rows.
template <class V>
class Application {
 public:
  Application(const V* a, int64_t n, int64_t first, int64_t count, V* pivots)
      : pivots_{std::copy_n(a + first * n, count * n, pivots) - count * n, count, n, n} {}

  // Apply the elimination to rows [begin, end) of the matrix. `factors` holds `block` factors for each row.
  void run(V* a, const V* factors, int64_t begin, int64_t end) const {
    const int64_t n = pivots_.columns;
    gemm<V>({factors + begin * block, end - begin, pivots_.rows, block}, pivots_, {a + begin * n, end - begin, n, n},
            true);
  }

 private:
  const Matrix<const V> pivots_;
};

// Scratch memory of one thread.
template <class V>
struct Workspace {
  int64_t* exchanged;
  V *columns, *pivots;
};

// Invert one matrix. parallel(n, f) calls f(begin, end) for ranges of [0, n), in parallel if the matrix is large and
// the only one.
template <class V, class Parallel>
void invert(V* a, int64_t n, const Workspace<V>& work, const Parallel& parallel) {
  const Eliminate<V> eliminate = elimination<V>();
  for (int64_t first = 0; first < n; first += block) {
    poll_run();
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
        invert(to, n, workspace(0), [](int64_t rows, const auto& body) {
          parallel_for(rows, std::max(grain_for(rows * block), rows_of_part), body);
        });
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
