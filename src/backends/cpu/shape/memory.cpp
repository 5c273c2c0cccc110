// Kernels that store values in memory: assignments, copies, and constants.
//
// The kernel of assign writes input 1, the value, into the memory of input 0, the variable.

#include "backends/cpu/kernel.h"
#include "backends/cpu/shape/strided_copy.h"

namespace mpsgraph::cpu {
namespace {

std::unique_ptr<Kernel> copy_kernel(const Operand& to, const Operand& from) {
  return kernel([to = to.slot, from = from.slot, bytes = from.bytes()](Frame& f) {
    copy_bytes(f.at<std::byte>(to), f.at<std::byte>(from), bytes);
  });
}

std::unique_ptr<Kernel> lower_assign(Lowering& lowering) { return copy_kernel(lowering.input(0), lowering.input(1)); }

std::unique_ptr<Kernel> lower_copy(Lowering& lowering) { return copy_kernel(lowering.output(), lowering.input(0)); }

std::unique_ptr<Kernel> lower_constant(Lowering& lowering) {
  return kernel([y = lowering.output(), data = lowering.attributes().data("value")](Frame& f) {
    if (data->is_splat())
      fill(f.at<std::byte>(y.slot), data->bytes(), size_of(y.dtype), y.elements());
    else
      copy_bytes(f.at<std::byte>(y.slot), data->bytes(), data->stored_bytes());
  });
}

}  // namespace

const Kernels memory_kernels("memory", [] {
  define_kernel("assign", lower_assign);
  define_kernel("read", lower_copy);
  define_kernel("constant", lower_constant);
});

}  // namespace mpsgraph::cpu
