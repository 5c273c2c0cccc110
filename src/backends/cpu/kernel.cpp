// Kernel and its frame: definitions that should be compiled only once.
#include "backends/cpu/kernel.h"

#include "mpsgraph/core/errors.h"
#include "runtime/run_control.h"

namespace mpsgraph::cpu {

const std::atomic<bool> Frame::never_cancelled{false};
void Frame::throw_cancelled() { runtime::throw_cancelled(); }
Kernel::~Kernel() = default;
std::string explained(const Kernel& kernel) {
  const std::string description = kernel.description();
  if (kernel.candidate.empty()) return description;
  return cat(kernel.candidate, description.empty() ? "" : ": ", description,
             kernel.declined.empty() ? "" : "; not chosen: ", kernel.declined);
}

DescribedKernel::~DescribedKernel() = default;
std::string DescribedKernel::description() const { return description_; }
void DescribedKernel::describe(std::string description) { description_ = std::move(description); }

}  // namespace mpsgraph::cpu
