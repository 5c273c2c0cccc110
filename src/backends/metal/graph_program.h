// GraphProgram: feeds, targets, and target operations of an MPSGraph, ready to be encoded.
//
// A GraphProgram has one of two forms. An MPSGraphExecutable is compiled once and kept as long as the GraphProgram.
// Otherwise, feeds and targets are passed to the MPSGraph, which compiles them when they are encoded. An MPSGraph keeps
// only a few compiled forms (15 on recent systems) and compiles the others again each time.
#pragma once

#include <vector>

#include "backends/metal/device.h"
#include "backends/metal/lowering.h"

namespace mpsgraph::metal {

class GraphProgram {
 public:
  enum class Form { executable, through_graph };

  GraphProgram() = default;  // computes nothing
  // Feeds and targets may contain nil, for unused feeds and targets that are constants. `operations` may be nil.
  GraphProgram(MetalDevice& device, MPSGraph* graph, GraphTensors feeds, GraphTensors targets,
               NSArray<MPSGraphOperation*>* operations, Form form);

  bool computes() const { return computes_; }
  const GraphTensors& feeds() const { return feeds_; }
  const GraphTensors& targets() const { return targets_; }
  // Arrays are in the order of feeds and targets; those at nil tensors are ignored. Must not be called if computes() is
  // false, or by two threads at once for programs of the same MPSGraph.
  void encode(MPSCommandBuffer* buffer, const std::vector<MPSGraphTensorData*>& inputs,
              const std::vector<MPSGraphTensorData*>& outputs) const;

  // The executable, and the order of its feeds and targets, which the executable itself chooses. For each of the
  // executable's tensors, a vector holds the index of the corresponding tensor in feeds() or targets().
  MPSGraphExecutable* executable() const { return executable_; }
  const std::vector<size_t>& feed_order() const { return feed_order_; }
  const std::vector<size_t>& target_order() const { return target_order_; }

 private:
  void compile(MetalDevice& device);

  MPSGraph* graph_ = nil;
  GraphTensors feeds_, targets_;
  NSArray<MPSGraphOperation*>* operations_ = nil;
  bool computes_ = false;
  MPSGraphExecutable* executable_ = nil;
  std::vector<size_t> feed_order_, target_order_;
  // The result of an executable that has operations but no targets. Its value is never read.
  MPSGraphTensor* unused_ = nil;
  MPSGraphTensorData* unused_data_ = nil;
  MPSGraphExecutionDescriptor* descriptor_ = nil;  // the same for all runs, because MPSGraph looks it up in its cache
};

}  // namespace mpsgraph::metal
