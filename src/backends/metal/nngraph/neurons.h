// Neurons of ours as Apple's descriptors.
#pragma once

#include <string_view>

#include "backends/metal/frameworks.h"
#include "mpsgraph/core/attributes.h"

namespace mpsgraph::metal {

// `slopes`: of a PReLU, one for each channel; null otherwise.
MPSNNNeuronDescriptor* neuron_descriptor(std::string_view type, double a, double b, double c,
                                         const ConstantPtr& slopes);

}  // namespace mpsgraph::metal
