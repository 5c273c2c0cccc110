// MetalKernel: the user's kernel of a custom operation, written in the Metal shading language and compiled for one use
// in a program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/metal/queue.h"
#include "mpsgraph/core/custom.h"

namespace mpsgraph::metal {

class MetalKernel {
 public:
  // Compile the kernel for the attributes and sizes of this use. Throws GraphError with the compiler's message, or
  // UnsupportedError if the operation has no Metal code.
  MetalKernel(MetalDevice& device, const CustomOperation& operation, std::shared_ptr<const CustomSite> site);

  // Append the kernel to the current command buffer.
  void encode(MetalCommands& commands, const std::vector<runtime::NDArray>& operands,
              const std::vector<runtime::NDArray>& results) const;

  // Return the text inserted before the source: the struct Arguments, and names for element types.
  static std::string declarations(const CustomSite& site);

 private:
  MetalDevice& device_;
  const std::shared_ptr<const CustomSite> site_;
  MTLSize threads_;
  NSData* arguments_;
  id<MTLComputePipelineState> pipeline_;
};

}  // namespace mpsgraph::metal
