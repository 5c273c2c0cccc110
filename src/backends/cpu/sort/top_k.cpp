// top_k and bottom_k: the k largest or smallest elements along an axis in order, and where they stood.

#include "backends/cpu/sort/sort_row.h"

namespace mpsgraph::cpu {
namespace {

// How many elements of x[0, n) come before one that may be better than `limit`.
template <bool top, class T>
int64_t worse_ones(const T* x, int64_t n, T limit) {
  constexpr int64_t block = 32;
  const auto better = [&](int64_t i) { return top ? !(x[i] <= limit) : !(x[i] >= limit); };  // NaN may be
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    int some = 0;
    for (int64_t j = i; j < i + block; ++j) some |= better(j);
    if (some) break;
  }
  while (i < n && !better(i)) ++i;
  return i;
}

template <bool top>
std::unique_ptr<Kernel> lower_k(Lowering& lowering) {
  const Operand x = lowering.input(0), values = lowering.output(0), indices = lowering.output(1);
  const AxisSplit s(x.dims, lowering.attributes().integer("axis"));
  const int64_t k = lowering.attributes().integer("k");
  return dispatch_ordered(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Element = Indexed<typename Keys<T>::Key>;
    using Best = BestOfRow<Element>;
    const int64_t rows = s.outer * s.inner, parts = std::clamp<int64_t>(rows, 1, thread_count());
    const int64_t room = Best::capacity(s.n, k);
    const Slot scratch = lowering.scratch(static_cast<size_t>(parts * room) * sizeof(Element));
    return kernel([=](Frame& f) {
      if (k == 0 || rows == 0) return;
      const auto find = [&](int64_t part, int64_t begin, int64_t end) {
        Element* best = f.at<Element>(scratch) + part * room;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t outer = row / s.inner, inner = row % s.inner;
          const T* from = f.at<const T>(x.slot) + outer * s.n * s.inner + inner;
          const auto element = [&](int64_t i) { return Element(Keys<T>::of(from[i * s.inner], top, true), i); };
          Best::run(best, s.n, k, element, [&](int64_t i, const Element& worst) -> int64_t {
            if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int32_t>)
              if (s.inner == 1) return worse_ones<top>(from + i, s.n - i, from[worst.index()]);
            return 0;
          });
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

const Kernels kernels("top_k", [] {
  define_kernel("top_k", lower_k<true>);
  define_kernel("bottom_k", lower_k<false>);
});

}  // namespace mpsgraph::cpu
