// Code shared by pooling.mm and pooling_indices.mm: the windows of a pooling, and the MPSGraph poolings that implement
// it.
#pragma once

#include "backends/metal/windows.h"
#include "core/ops/pooling.h"

namespace mpsgraph::metal {

// One call of an MPSGraph pooling method, on a source of rank 4: pooling over the two image axes of a layout, or over
// all four axes.
struct PoolingStage {
  Dims source, result;
  std::vector<ops::Window> windows;
  MPSGraphTensorNamedDataLayout layout;  // used if the pooling is over two axes
};

std::vector<ops::Window> pooling_windows(const ops::Pooling& pooling, const Dims& source);
std::vector<PoolingStage> pooling_stages(const ops::Pooling& pooling, const Dims& source);
Taps taps_of(const Lowering& l, const ops::Pooling& pooling, const Dims& source);
MPSGraphPooling2DOpDescriptor* descriptor2d(const PoolingStage& stage);
MPSGraphPooling4DOpDescriptor* descriptor4d(const PoolingStage& stage);

}  // namespace mpsgraph::metal
