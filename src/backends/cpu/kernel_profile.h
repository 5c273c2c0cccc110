// KernelProfile: times the kernels of one run, including nested ones, while a profile is being recorded.
//
// Without a profile, running a list of kernels costs one extra pointer test.
#pragma once

#include <span>

#include "backends/cpu/lowering.h"
#include "mpsgraph/runtime/profiler.h"

namespace mpsgraph::cpu {

// Descriptions of all kernels for the profiler, indexed by Kernel::index. They contain no references to the program.
using KernelDescriptions = std::vector<runtime::KernelDescription>;
std::shared_ptr<const KernelDescriptions> describe_kernels(const LoweredProgram& lowered);

class KernelProfile {
 public:
  KernelProfile(runtime::Profiler::Session session, std::shared_ptr<const KernelDescriptions> descriptions)
      : session_(session), descriptions_(std::move(descriptions)) {}
  void run(const Kernel& kernel, Frame& frame) const;

 private:
  const runtime::Profiler::Session session_;
  const std::shared_ptr<const KernelDescriptions> descriptions_;
};

// Run kernels in order. If the run is cancelled, throw CancelledError before the next kernel starts.
void run_kernels(std::span<const std::unique_ptr<Kernel>> list, Frame& frame);

}  // namespace mpsgraph::cpu
