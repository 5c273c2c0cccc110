// Whether an MPSGraphExecutable shares the variables of the MPSGraph from which it was compiled.
//
// Apple does not document the answer. It decides how programs with variables run (decision 0051).
#pragma once

#include "backends/metal/device.h"

namespace mpsgraph::metal {

// Run small programs on the first call and return what they show. Later calls return the same answer. The environment
// variable MPSGRAPH_METAL_VARIABLES=graph makes the answer false without running anything.
bool executables_share_variables(MetalDevice& device);

}  // namespace mpsgraph::metal
