// Layers as the data sources of Apple's protocols.
#pragma once

#include <memory>

#include "backends/metal/nngraph/parameters.h"

namespace mpsgraph::metal {

// Of a layer that changes, sources that update themselves while a batch is encoded; of others, that do not.
struct ConvolutionOptions {
  bool fuses = false;  // the neuron is a part of the descriptor
  bool half = false;   // kernels hold the weights as float16, as half accumulation needs
};
id<MPSCNNConvolutionDataSource> convolution_source(const std::shared_ptr<LayerParameters>& parameters,
                                                   ConvolutionOptions options);
id<MPSCNNBatchNormalizationDataSource> batch_source(const std::shared_ptr<LayerParameters>& parameters);
id<MPSCNNInstanceNormalizationDataSource> instance_source(const std::shared_ptr<LayerParameters>& parameters);
id<MPSCNNGroupNormalizationDataSource> group_source(const std::shared_ptr<LayerParameters>& parameters);

}  // namespace mpsgraph::metal
