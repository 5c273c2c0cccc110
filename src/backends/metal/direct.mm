// Encodes a graph in one command buffer, submits it, and waits for it.
#include "backends/metal/direct.h"

#include <cstring>

#include "backends/metal/guarded.h"

namespace mpsgraph::metal {

using runtime::NDArray;

NDArray on_device(MetalDevice& device, const void* data, const TensorType& type) {
  NDArray array = device.allocate(type.dtype, type.shape.dims());
  std::memcpy(array.data(), data, array.bytes());
  return array;
}

std::vector<NDArray> run_once(MetalDevice& device, MPSGraph* graph, Fed* feeds, const Asked& asked,
                              NSArray<MPSGraphOperation*>* also) {
  std::vector<NDArray> results;
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* out = [NSMutableDictionary dictionary];
  for (const auto& [tensor, type] : asked) {
    results.push_back(device.allocate(type.dtype, type.shape.dims()));
    out[tensor] = device.data_of(results.back()).data;
  }
  run_now(device.queue, [&](MPSCommandBuffer* buffer) {
    [graph encodeToCommandBuffer:buffer
                           feeds:feeds
                targetOperations:also
               resultsDictionary:out
             executionDescriptor:execution_descriptor()];
  });
  return results;
}

}  // namespace mpsgraph::metal
