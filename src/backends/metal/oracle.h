// Apple's own gradients: an oracle for the self-test, and used by nothing else.
#pragma once

#include <span>
#include <vector>

#include "backends/metal/device.h"
#include "compiler/program.h"

namespace mpsgraph::metal {

// Of the program's only target, of rank 0, by each feed. Invalid where MPSGraph gives none.
std::vector<runtime::NDArray> apple_gradients(MetalDevice& device, compiler::Program program,
                                              std::span<const runtime::NDArray> feeds);

}  // namespace mpsgraph::metal
