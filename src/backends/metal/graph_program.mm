// Compiles and encodes programs in both forms.
#include "backends/metal/graph_program.h"

#include <algorithm>
#include <utility>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

namespace {

// For each tensor in `theirs`, the feeds or targets in the executable's order, return its index in `ours`, the same
// tensors in the requested order.
std::vector<size_t> order_in(NSArray<MPSGraphTensor*>* theirs, const GraphTensors& ours, const char* what) {
  std::vector<size_t> order;
  for (MPSGraphTensor* tensor in theirs) {
    const auto found = std::ranges::find(ours, tensor);
    if (found == ours.end())
      throw DeviceError(cat("[metal] expected each ", what, " of MPSGraph's executable among the requested tensors, ",
                            "got a different tensor; please report this"));
    order.push_back(static_cast<size_t>(found - ours.begin()));
  }
  return order;
}

NSArray<MPSGraphTensorData*>* in_order(const std::vector<MPSGraphTensorData*>& data, const std::vector<size_t>& order) {
  NSMutableArray<MPSGraphTensorData*>* array = [NSMutableArray array];
  for (const size_t i : order) [array addObject:data[i]];
  return array;
}

}  // namespace

GraphProgram::GraphProgram(MetalDevice& device, MPSGraph* graph, GraphTensors feeds, GraphTensors targets,
                           NSArray<MPSGraphOperation*>* operations, Form form)
    : graph_(graph), feeds_(std::move(feeds)), targets_(std::move(targets)), operations_([operations copy]) {
  const auto present = [](MPSGraphTensor* tensor) { return tensor != nil; };
  computes_ = std::ranges::any_of(targets_, present) || operations_.count > 0;
  if (!computes_) return;
  if (form == Form::executable)
    compile(device);
  else
    descriptor_ = execution_descriptor();
}

void GraphProgram::compile(MetalDevice& device) {
  NSMutableDictionary<MPSGraphTensor*, MPSGraphShapedType*>* types = [NSMutableDictionary dictionary];
  for (MPSGraphTensor* feed : feeds_)
    if (feed) types[feed] = [[MPSGraphShapedType alloc] initWithShape:feed.shape dataType:feed.dataType];
  NSMutableArray<MPSGraphTensor*>* targets = [NSMutableArray array];
  for (MPSGraphTensor* target : targets_)
    if (target) [targets addObject:target];
  if (targets.count == 0) {
    // All known callers compile executables with at least one target.
    unused_ = [graph_ identityWithTensor:[graph_ constantWithScalar:0 shape:@[ @1 ] dataType:MPSDataTypeInt32]
                                    name:nil];
    [targets addObject:unused_];
    // This buffer is not pooled, because runs may write to it after this object has been destroyed.
    id<MTLBuffer> buffer = [device.device newBufferWithLength:least_buffer_bytes options:MTLResourceStorageModeShared];
    if (!buffer) throw DeviceError("[metal] cannot allocate a buffer of 64 bytes");
    unused_data_ = [[MPSGraphTensorData alloc] initWithMTLBuffer:buffer shape:@[ @1 ] dataType:MPSDataTypeInt32];
  }
  executable_ = [graph_ compileWithDevice:device.graph_device
                                    feeds:types
                            targetTensors:targets
                         targetOperations:operations_.count > 0 ? operations_ : nil
                    compilationDescriptor:compilation_descriptor()];
  if (!executable_) throw DeviceError("[metal] MPSGraph failed to compile the program; use device=\"cpu\"");
  feed_order_ = order_in(executable_.feedTensors, feeds_, "feed");
  if (!unused_) target_order_ = order_in(executable_.targetTensors, targets_, "target");
}

void GraphProgram::encode(MPSCommandBuffer* buffer, const std::vector<MPSGraphTensorData*>& inputs,
                          const std::vector<MPSGraphTensorData*>& outputs) const {
  if (executable_) {
    [executable_ encodeToCommandBuffer:buffer
                           inputsArray:in_order(inputs, feed_order_)
                          resultsArray:unused_ ? @[ unused_data_ ] : in_order(outputs, target_order_)
                   executionDescriptor:nil];
    return;
  }
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* in = [NSMutableDictionary dictionary];
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* out = [NSMutableDictionary dictionary];
  for (size_t i = 0; i < feeds_.size(); ++i)
    if (feeds_[i]) in[feeds_[i]] = inputs[i];
  for (size_t i = 0; i < targets_.size(); ++i)
    if (targets_[i]) out[targets_[i]] = outputs[i];
  [graph_ encodeToCommandBuffer:buffer
                          feeds:in
               targetOperations:operations_
              resultsDictionary:out
            executionDescriptor:descriptor_];
}

}  // namespace mpsgraph::metal
