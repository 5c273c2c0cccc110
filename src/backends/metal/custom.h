// A custom operation on the device: the user's kernel in Metal's language, compiled for one place in a program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/metal/queue.h"
#include "mpsgraph/core/custom.h"

namespace mpsgraph::metal {

class MetalKernel {
 public:
  // Compiles it, with the attributes and sizes of this place. GraphError with the compiler's words;
  // UnsupportedError where the operation has no code for the device.
  MetalKernel(MetalDevice& device, const CustomOperation& operation, std::shared_ptr<const CustomSite> site);

  // Into the command buffer at hand, behind what it holds.
  void encode(MetalCommands& commands, const std::vector<runtime::NDArray>& operands,
              const std::vector<runtime::NDArray>& results) const;

  // What stands in front of the source: the struct Arguments and names of element types.
  static std::string declarations(const CustomSite& site);

 private:
  MetalDevice& device_;
  const std::shared_ptr<const CustomSite> site_;
  MTLSize threads_;
  NSData* arguments_;
  id<MTLComputePipelineState> pipeline_;
};

}  // namespace mpsgraph::metal
