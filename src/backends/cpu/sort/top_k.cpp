// top_k and bottom_k: the k largest or smallest elements along an axis in order, and where they stood.

#include "backends/cpu/sort/sort_row.h"

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

int64_t worse_ones(const Keys<float>&, bool top, const float* x, int64_t n, float limit) {  // NaN may be better
  return top ? worse_ones(x, n, [=](float e) { return !(e <= limit); })
             : worse_ones(x, n, [=](float e) { return !(e >= limit); });
}
int64_t worse_ones(const Keys<uint32_t>& keys, bool, const uint32_t* x, int64_t n, uint32_t limit) {
  return worse_ones(x, n, [bits = keys.turned, limit = limit ^ keys.turned](uint32_t e) { return (e ^ bits) < limit; });
}

std::unique_ptr<Kernel> lower_k(Lowering& lowering, bool top) {
  const Operand x = lowering.input(0), values = lowering.output(0), indices = lowering.output(1);
  const AxisSplit s(x.dims, lowering.attributes().integer("axis"));
  const int64_t k = lowering.attributes().integer("k");
  return dispatch_ordered_bits(lowering, x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Element = Indexed<typename Keys<T>::Key>;
    using Best = BestOfRow<Element>;
    const Keys<T> keys(x.dtype, top);
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
          const auto element = [&](int64_t i) { return Element(keys.of(from[i * s.inner], true), i); };
          Best::run(best, s.n, k, element, [&](int64_t i, const Element& worst) -> int64_t {
            if constexpr (std::is_same_v<T, float> || std::is_same_v<T, uint32_t>)
              if (s.inner == 1) return worse_ones(keys, top, from + i, s.n - i, from[worst.index()]);
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

const Kernels top_k_kernels("top_k", [] {
  define_kernel("top_k", [](Lowering& lowering) { return lower_k(lowering, true); });
  define_kernel("bottom_k", [](Lowering& lowering) { return lower_k(lowering, false); });
});

}  // namespace mpsgraph::cpu
