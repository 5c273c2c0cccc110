// check_indices: aborts the run if an index is out of range.
//
// The first scan only determines whether any index is out of range, which takes one or two microseconds for 8,192
// indices. If one is, a second scan locates it for the error message.
#include <atomic>

#include "backends/cpu/gather/indices.h"
#include "backends/cpu/parallel.h"
#include "core/ops/any_outside.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::cpu {
namespace {

std::unique_ptr<Kernel> lower_check_indices(Lowering& lowering) {
  const Operand indices = lowering.input(0);
  const Operation* check = &lowering.operation();
  const Ints& lengths = check->attributes.integers("lengths");
  const Ints& ignored = check->attributes.integers("ignored");
  return kernel([=](Frame& f) {
    const auto* data = f.at<const std::byte>(indices.slot);
    const auto depth = static_cast<int64_t>(lengths.size()),
               bytes = depth * static_cast<int64_t>(size_of(indices.dtype));
    std::atomic<bool> outside = false;
    parallel_for(indices.elements() / depth, grain_for(bytes), [&](int64_t begin, int64_t end) {
      if (ops::any_outside(data + begin * bytes, indices.dtype, (end - begin) * depth, lengths, ignored))
        outside = true;
    });
    if (outside) ops::refuse(*check, data);
  });
}

}  // namespace

const Kernels check_indices_kernels("check_indices", [] { define_kernel("check_indices", lower_check_indices); });

}  // namespace mpsgraph::cpu
