// What the two files of poolings share: the windows of a pooling, and the poolings of MPSGraph that make it.
#pragma once

#include "backends/metal/windows.h"
#include "core/ops/pooling.h"

namespace mpsgraph::metal {

// One pooling of MPSGraph, of a source of rank 4: over two axes of a layout, or over all four.
struct PoolingStage {
  Dims source, result;
  std::vector<ops::Window> windows;
  MPSGraphTensorNamedDataLayout layout;  // of two axes
};

std::vector<ops::Window> pooling_windows(const ops::Pooling& pooling, const Dims& source);
std::vector<PoolingStage> pooling_stages(const ops::Pooling& pooling, const Dims& source);
Taps taps_of(const Lowering& l, const ops::Pooling& pooling, const Dims& source);
MPSGraphPooling2DOpDescriptor* descriptor2d(const PoolingStage& stage);
MPSGraphPooling4DOpDescriptor* descriptor4d(const PoolingStage& stage);

}  // namespace mpsgraph::metal
