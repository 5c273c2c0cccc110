// band_part: copies a matrix with zeros outside its band.

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

std::unique_ptr<Kernel> lower_band_part(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const int64_t rows = x.dims[x.dims.size() - 2], columns = x.dims[x.dims.size() - 1];
  const int64_t all = rows + columns;
  const auto width = [all](int64_t n) { return n < 0 ? all : std::min(n, all); };
  const int64_t lower = width(lowering.attributes().integer("num_lower"));
  const int64_t upper = width(lowering.attributes().integer("num_upper"));
  lowering.may_share(0, 0);
  return dispatch_size(size_of(x.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=, count = x.elements() / std::max<int64_t>(columns, 1)](Frame& f) {
      parallel_for(count, grain_for(columns * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t i = row % rows;
          const int64_t first = std::clamp<int64_t>(i - lower, 0, columns);
          const int64_t last = std::clamp<int64_t>(i + upper + 1, first, columns);
          const T* from = f.at<const T>(x.slot) + row * columns;
          T* to = f.at<T>(y.slot) + row * columns;
          std::fill(to, to + first, T(0));
          if (from != to) std::copy(from + first, from + last, to + first);
          std::fill(to + last, to + columns, T(0));
        }
      });
    });
  });
}

}  // namespace

const Kernels linear_algebra_kernels("linear_algebra", [] { define_kernel("band_part", lower_band_part); });

}  // namespace mpsgraph::cpu
