// Computes gradients with MPSGraph's own differentiation. Only the self-test uses them, to check this library's
// gradients.
#pragma once

#include <span>
#include <vector>

#include "backends/metal/device.h"
#include "compiler/program.h"

namespace mpsgraph::metal {

// Return the gradients of the program's only target, of rank 0, with respect to each feed. Invalid arrays mean that
// MPSGraph has no gradient.
std::vector<runtime::NDArray> apple_gradients(MetalDevice& device, compiler::Program program,
                                              std::span<const runtime::NDArray> feeds);

}  // namespace mpsgraph::metal
