// top_k and bottom_k: the k largest or smallest elements along an axis, in order, and their positions.
//
// Contiguous rows of at least 32 elements are searched with vector instructions, which compare elements as float32.
// Converting other types to float32 can make different elements equal, but never reverses their order. If different
// elements can become equal, the search keeps every element whose float equals that of the k-th best. The elements that
// the search keeps are then compared exactly, by unsigned integers that have the same order as the elements (Keys in
// sort_row.h), to select and sort the best k.

#include <limits>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/sort/sort_row.h"
#include "backends/cpu/sort/top_k_float.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t enough = 32;  // minimum row length for which computing a bound pays off

const BestFloats& best_floats(bool top) { return top ? greatest_floats() : smallest_floats(); }

// Return whether different elements of the type always have different float values.
bool are_floats(DType dtype) { return size_of(dtype) <= 2 || dtype == DType::float32; }

// Add all elements of x[0, n) that may be among the best k to `best`. element(i) returns the sort key of element i,
// combined with the index i. `exact` means that different elements always have different float values.
template <class Element, class Load>
void find_best(const BestFloats& floats, bool top, bool exact, const float* x, int64_t n, int64_t k,
               const Load& element, BestOfRow<Element>& best) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool bounded = k <= BestFloats::most && n >= std::max(enough, 4 * k);
  float limit = bounded ? floats.bound(x, n, k) : infinity;
  int64_t i = 0, missing = k;  // number of elements as good as the bound that have not been found yet
  if (!bounded || (!top && limit == infinity)) {  // NaN may be among the smallest
    while (i < n && !best.has_worst()) best.add(element(i++));
    missing = 0;
  }
  while (i < n) {
    if (best.has_worst()) limit = x[best.worst().index()];
    const bool no_number = limit != limit;
    if (no_number && top) break;  // nothing is better than NaN
    if (no_number) limit = infinity;  // when looking for the smallest, any number is better than NaN
    const bool as_good = missing > 0 || no_number || !exact;
    int32_t found[BestFloats::room];
    const int64_t count = floats.find(x, i, n, limit, as_good, missing > 0 ? missing : BestFloats::room, found);
    for (int64_t j = 0; j < count; ++j) {
      // Among equal elements, the first ones are preferred. Elements equal to the limit (often zeros) are therefore
      // skipped once k elements have been found.
      if (exact && j >= missing && missing > 0 && x[found[j]] == limit) continue;
      best.add(element(found[j]));
    }
    missing = std::max<int64_t>(0, missing - count);
  }
}

template <class Element, class Load>
void add_all(int64_t n, const Load& element, BestOfRow<Element>& best) {
  for_polled_pieces(0, n, elements_per_poll, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) best.add(element(i));
  });
}

std::unique_ptr<Kernel> lower_k(Lowering& lowering, bool top) {
  const Operand x = lowering.input(0), values = lowering.output(0), indices = lowering.output(1);
  const AxisSplit s(x.dims, lowering.attributes().integer("axis"));
  const int64_t k = lowering.attributes().integer("k");
  const BestFloats& floats = best_floats(top);
  const bool exact = are_floats(x.dtype), in_vectors = s.inner == 1 && s.n >= enough;
  const TileFunction to_floats = x.dtype == DType::float32 ? nullptr : cast_function(x.dtype, DType::float32);
  return dispatch_ordered_bits(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Element = Indexed<typename Keys<T>::Key>;
    using Best = BestOfRow<Element>;
    const Keys<T> keys(x.dtype, top);
    const int64_t rows = s.outer * s.inner, parts = std::clamp<int64_t>(rows, 1, thread_count());
    const int64_t room = Best::capacity(s.n, k);
    const Slot scratch = lowering.scratch(static_cast<size_t>(parts * room) * sizeof(Element));
    const Slot converted =
        in_vectors && to_floats ? lowering.scratch(static_cast<size_t>(parts * s.n) * sizeof(float)) : -1;
    return kernel([=, &floats](Frame& f) {
      if (k == 0 || rows == 0) return;
      const auto find = [&](int64_t part, int64_t begin, int64_t end) {
        Element* best = f.at<Element>(scratch) + part * room;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t outer = row / s.inner, inner = row % s.inner;
          const T* from = f.at<const T>(x.slot) + outer * s.n * s.inner + inner;
          const auto element = [&](int64_t i) { return Element(keys.of(from[i * s.inner], true), i); };
          const auto give = [&](const Element* in_order) {
            for (int64_t i = 0; i < k; ++i) {
              const int64_t at = (outer * k + i) * s.inner + inner, index = in_order[i].index();
              f.at<T>(values.slot)[at] = from[index * s.inner];
              f.at<int32_t>(indices.slot)[at] = static_cast<int32_t>(index);
            }
          };
          if (s.n <= few_elements) {
            Element in_order[few_elements];
            sort_few<Element>(s.n, element, [&](int64_t at, const Element& e) { in_order[at] = e; });
            give(in_order);
            continue;
          }
          Best of_row(best, s.n, k);
          if (in_vectors) {
            const void* row_of_floats = from;
            if (to_floats) {
              auto* row = f.at<float>(converted) + part * s.n;
              to_floats(row, &row_of_floats, s.n);
              row_of_floats = row;
            }
            find_best(floats, top, exact, static_cast<const float*>(row_of_floats), s.n, k, element, of_row);
          } else {
            add_all(s.n, element, of_row);
          }
          of_row.finish();
          give(best);
        }
      };
      if (rows * s.n < 4096) return find(0, 0, rows);
      const int64_t at_once = std::max<int64_t>(elements_per_poll / s.n, 1);
      parallel_parts(parts, [&](int64_t part) {
        for_polled_pieces(rows * part / parts, rows * (part + 1) / parts, at_once,
                          [&](int64_t begin, int64_t end) { find(part, begin, end); });
      });
    });
  });
}

}  // namespace

const Kernels top_k_kernels("top_k", [] {
  define_kernel("top_k", [](Lowering& lowering) { return lower_k(lowering, true); });
  define_kernel("bottom_k", [](Lowering& lowering) { return lower_k(lowering, false); });
});

}  // namespace mpsgraph::cpu
