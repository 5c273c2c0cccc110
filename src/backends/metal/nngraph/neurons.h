// Conversion of neurons to Apple's descriptors.
#pragma once

#include <string_view>

#include "backends/metal/frameworks.h"
#include "mpsgraph/core/attributes.h"

namespace mpsgraph::metal {

// Create the descriptor of a neuron (activation). `slopes` has one slope per channel of a PReLU and is null for other
// types.
MPSNNNeuronDescriptor* neuron_descriptor(std::string_view type, double a, double b, double c,
                                         const ConstantPtr& slopes);

}  // namespace mpsgraph::metal
