// Implementations of Apple's data source protocols for layers.
#pragma once

#include <memory>

#include "backends/metal/nngraph/parameters.h"

namespace mpsgraph::metal {

// The class of a data source depends on whether its layer trains: sources of trainable layers update themselves while a
// batch is encoded; sources of other layers do not.
struct ConvolutionOptions {
  bool fuses = false;  // whether the neuron is part of the descriptor
  bool half = false;   // whether kernels store the weights as float16, as float16 accumulation requires
};
id<MPSCNNConvolutionDataSource> convolution_source(const std::shared_ptr<LayerParameters>& parameters,
                                                   ConvolutionOptions options);
id<MPSCNNBatchNormalizationDataSource> batch_source(const std::shared_ptr<LayerParameters>& parameters);
id<MPSCNNInstanceNormalizationDataSource> instance_source(const std::shared_ptr<LayerParameters>& parameters);
id<MPSCNNGroupNormalizationDataSource> group_source(const std::shared_ptr<LayerParameters>& parameters);

}  // namespace mpsgraph::metal
