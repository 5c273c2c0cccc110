// custom: a user-defined kernel, prepared when the program is compiled, that operates on arena memory like a built-in
// kernel.
#include <array>

#include "backends/cpu/kernel.h"
#include "backends/cpu/parallel.h"
#include "mpsgraph/core/custom.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/custom_library.h"

namespace mpsgraph::cpu {
namespace {

// An array of the pointers that one run passes to the kernel. A short array is stored in the object itself, without a
// heap allocation.
template <class T>
class Pointers {
 public:
  Pointers(const Frame& frame, const std::vector<Slot>& slots) : many_(slots.size() > few_.size() ? slots.size() : 0) {
    T* places = data();
    for (size_t i = 0; i < slots.size(); ++i) places[i] = frame.pointers[slots[i]];
  }
  T* data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<T, 16> few_;
  std::vector<T> many_;
};

std::unique_ptr<Kernel> lower_custom(Lowering& l) {
  const Operation& operation = l.operation();
  const CustomOperationPtr custom = custom_operation(operation);
  if (!custom->kernel)
    throw UnsupportedError(cat("[", custom->name, "] '", operation.name, "' has no kernel for the CPU; implement the ",
                               "operation in C++, or use Device(\"metal\")", operation.where()));
  std::vector<Slot> operands, results;
  for (size_t i = 0; i < l.input_count(); ++i) operands.push_back(l.input(i).slot);
  for (size_t i = 0; i < operation.outputs.size(); ++i) results.push_back(l.output(i).slot);
  // Loops of custom kernels are not cancelled, because kernels may be written in C or catch exceptions.
  const CustomLoop loop = [](int64_t items, int64_t grain, const auto& f) {
    const PollScope poll(nullptr);
    parallel_for(items, grain, f);
  };
  return kernel(
      [=, run = runtime::prepared(*custom, custom_site(operation))](Frame& f) {
        Pointers<const std::byte*> from(f, operands);
        Pointers<std::byte*> to(f, results);
        run(from.data(), to.data(), loop);
      },
      cat("'", custom->name, "'"));
}

}  // namespace

const Kernels custom_kernels("custom", [] { define_kernel("custom", lower_custom); });

}  // namespace mpsgraph::cpu
