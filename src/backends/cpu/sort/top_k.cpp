// top_k and bottom_k: the k largest or smallest elements along an axis in order, and where they stood.

#include <limits>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/sort/sort_row.h"
#include "backends/cpu/sort/top_k_float.h"

namespace mpsgraph::cpu {
namespace {

// How many elements of x[0, n) come before one that may be better than `limit`.
template <class T, class Better>
int64_t worse_ones(const T* x, int64_t n, const Better& may_be_better) {
  constexpr int64_t block = 32;
  const auto better = [&](int64_t i) { return may_be_better(x[i]); };
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    int some = 0;
    for (int64_t j = i; j < i + block; ++j) some |= better(j);
    if (some) break;
  }
  while (i < n && !better(i)) ++i;
  return i;
}

const BestFloats& best_floats(bool top) {
  return top ? MPSGRAPH_BY_INSTRUCTION_SET(greatest_floats) : MPSGRAPH_BY_INSTRUCTION_SET(smallest_floats);
}

// Adds all of x[0, n) that may be among the best k. element(i): what `best` knows of element i.
template <class Element, class Load>
void find_best(const BestFloats& floats, bool top, const float* x, int64_t n, int64_t k, const Load& element,
               BestOfRow<Element>& best) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr int64_t enough = 32;  // elements for a bound to spare more than it costs
  const bool bounded = k <= BestFloats::most && n >= std::max(enough, 4 * k);
  float limit = bounded ? floats.bound(x, n, k) : infinity;
  int64_t i = 0, missing = k;  // of what is as good as the bound
  if (!bounded || (!top && limit == infinity)) {  // of the smallest NaN may be one
    while (i < n && !best.has_worst()) best.add(element(i++));
    missing = 0;
  }
  while (i < n) {
    if (best.has_worst()) limit = x[best.worst().index()];
    const bool no_number = limit != limit;
    if (no_number && top) break;  // nothing is better than NaN,
    if (no_number) limit = infinity;  // and any number better than a smallest that is NaN
    const bool as_good = missing > 0 || no_number;
    int32_t found[BestFloats::room];
    const int64_t count = floats.find(x, i, n, limit, as_good, missing > 0 ? missing : BestFloats::room, found);
    for (int64_t j = 0; j < count; ++j) {
      // Of equal ones the first, so that those behind k others are not wanted, often zeros.
      if (j >= missing && missing > 0 && x[found[j]] == limit) continue;
      best.add(element(found[j]));
    }
    missing = std::max<int64_t>(0, missing - count);
  }
}

template <class Element, class Load>
void find_best(const Keys<uint32_t>& keys, const uint32_t* x, int64_t n, const Load& element,
               BestOfRow<Element>& best) {
  for (int64_t i = 0; i < n; ++i) {
    if (best.has_worst()) {
      const uint32_t bits = keys.turned, limit = x[best.worst().index()] ^ bits;
      i += worse_ones(x + i, n - i, [=](uint32_t e) { return (e ^ bits) < limit; });
      if (i == n) break;
    }
    best.add(element(i));
  }
}

template <class Element, class Load>
void add_all(int64_t n, const Load& element, BestOfRow<Element>& best) {
  for (int64_t i = 0; i < n; ++i) best.add(element(i));
}

std::unique_ptr<Kernel> lower_k(Lowering& lowering, bool top) {
  const Operand x = lowering.input(0), values = lowering.output(0), indices = lowering.output(1);
  const AxisSplit s(x.dims, lowering.attributes().integer("axis"));
  const int64_t k = lowering.attributes().integer("k");
  const BestFloats& floats = best_floats(top);
  return dispatch_ordered_bits(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Element = Indexed<typename Keys<T>::Key>;
    using Best = BestOfRow<Element>;
    const Keys<T> keys(x.dtype, top);
    const int64_t rows = s.outer * s.inner, parts = std::clamp<int64_t>(rows, 1, thread_count());
    const int64_t room = Best::capacity(s.n, k);
    const Slot scratch = lowering.scratch(static_cast<size_t>(parts * room) * sizeof(Element));
    return kernel([=, &floats](Frame& f) {
      if (k == 0 || rows == 0) return;
      const auto find = [&](int64_t part, int64_t begin, int64_t end) {
        Element* best = f.at<Element>(scratch) + part * room;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t outer = row / s.inner, inner = row % s.inner;
          const T* from = f.at<const T>(x.slot) + outer * s.n * s.inner + inner;
          const auto element = [&](int64_t i) { return Element(keys.of(from[i * s.inner], true), i); };
          Best of_row(best, s.n, k);
          if constexpr (std::is_same_v<T, float>)
            s.inner == 1 ? find_best(floats, top, from, s.n, k, element, of_row) : add_all(s.n, element, of_row);
          else if constexpr (std::is_same_v<T, uint32_t>)
            s.inner == 1 ? find_best(keys, from, s.n, element, of_row) : add_all(s.n, element, of_row);
          else
            add_all(s.n, element, of_row);
          of_row.finish();
          for (int64_t i = 0; i < k; ++i) {
            const int64_t at = (outer * k + i) * s.inner + inner;
            f.at<T>(values.slot)[at] = from[best[i].index() * s.inner];
            f.at<int32_t>(indices.slot)[at] = best[i].index();
          }
        }
      };
      if (rows * s.n < 4096) return find(0, 0, rows);
      parallel_parts(parts, [&](int64_t part) { find(part, rows * part / parts, rows * (part + 1) / parts); });
    });
  });
}

}  // namespace

const Kernels top_k_kernels("top_k", [] {
  define_kernel("top_k", [](Lowering& lowering) { return lower_k(lowering, true); });
  define_kernel("bottom_k", [](Lowering& lowering) { return lower_k(lowering, false); });
});

}  // namespace mpsgraph::cpu
