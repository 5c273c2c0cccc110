// Weights packed at a few bits, and whether MPSGraph can read them.
#pragma once

#include "backends/metal/device.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::metal {

// Whether MPSGraph converts words to elements of 4 bits, the first one in the lowest bits, which Apple does not
// document. Runs a small program on the first call; later calls return the same answer. The environment variable
// MPSGRAPH_METAL_PACKED=composed makes the answer false without running anything.
bool reads_four_bits(MetalDevice& device);

// Whether dequantize_packed is lowered to MPSGraph's dequantization; otherwise, it is decomposed.
bool dequantizes_natively(const Operation& operation);

}  // namespace mpsgraph::metal
