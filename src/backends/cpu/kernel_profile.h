// KernelProfile: times the kernels of one run while a profile is taken, nested ones too.
//
// A frame without one runs its lists as they are, for one test of a pointer a list.
#pragma once

#include "backends/cpu/lowering.h"
#include "mpsgraph/runtime/profiler.h"

namespace mpsgraph::cpu {

// What the profiler shows of each kernel, by Kernel::index. Refers to nothing of the program.
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

void run_kernels(const KernelList& list, Frame& frame);

}  // namespace mpsgraph::cpu
