// Finds Accelerate at run time, so that the library has no dependency on it, and calls its sgemm.
#include "backends/cpu/matrix/accelerate_product.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/matrix/products.h"

#if defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace mpsgraph::cpu {
namespace {

bool is_transposed(const Lowering& lowering, std::string_view name) {
  return lowering.attributes().has(name) && lowering.attributes().boolean(name);
}

Products products_of(const Lowering& lowering) {
  return {lowering.input(0).dims, lowering.input(1).dims, lowering.output().dims,
          is_transposed(lowering, "transpose_a"), is_transposed(lowering, "transpose_b")};
}

}  // namespace

Sgemm* accelerate_sgemm() {
#if defined(__APPLE__)
  static Sgemm* const found = [] {
    void* library = dlopen("/System/Library/Frameworks/Accelerate.framework/Accelerate", RTLD_LAZY | RTLD_LOCAL);
    return library ? reinterpret_cast<Sgemm*>(dlsym(library, "cblas_sgemm")) : nullptr;
  }();
  return found;
#else
  return nullptr;
#endif
}

bool suits_library(const Lowering& lowering) {
  constexpr int64_t least_side = 32, least_products = int64_t{1} << 21, most = std::numeric_limits<int>::max();
  const Products p = products_of(lowering);
  return std::min(p.m, p.n) >= least_side && p.m * p.n * p.k >= least_products && std::max({p.m, p.n, p.k}) <= most;
}

std::unique_ptr<Kernel> library_product(Lowering& lowering, const ProductEpilogue& extras, Sgemm* sgemm) {
  constexpr int row_major = 101, plain = 111, transposed = 112;
  const bool turn_a = is_transposed(lowering, "transpose_a"), turn_b = is_transposed(lowering, "transpose_b");
  const Operand result = lowering.output();
  const Products p = products_of(lowering);
  auto product = kernel(
      [=, a = lowering.input(0).slot, b = lowering.input(1).slot, y = result.slot](Frame& f) {
        const auto m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
        for (int64_t i = 0; i < p.count(); ++i)
          sgemm(row_major, turn_a ? transposed : plain, turn_b ? transposed : plain, m, n, k, 1.f,
                f.at<const float>(a) + p.a[static_cast<size_t>(i)], turn_a ? m : k,
                f.at<const float>(b) + p.b[static_cast<size_t>(i)], turn_b ? k : n, 0.f, f.at<float>(y) + i * p.m * p.n,
                n);
      },
      "Accelerate's sgemm");
  if (extras.bias < 0 && extras.residual < 0 && !extras.relu) return product;
  return with_epilogue(std::move(product), extras, result, p.n, 1);
}

}  // namespace mpsgraph::cpu
