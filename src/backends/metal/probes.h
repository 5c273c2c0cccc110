// Probes: small programs with which the self-test determines, on a Mac, how MPSGraph and Metal behave where their
// documentation leaves a question open.
#pragma once

#include <string>
#include <vector>

#include "backends/metal/device.h"
#include "runtime/framework_oracle.h"

namespace mpsgraph::metal {

// Each probe builds and runs a small MPSGraph and returns the result as text. `device` outlives the probes.
std::vector<runtime::Probe> probes(MetalDevice& device);  // all probes, including those of the functions below
std::vector<runtime::Probe> random_probes(MetalDevice& device);
std::vector<runtime::Probe> recurrent_probes(MetalDevice& device);
std::vector<runtime::Probe> behaviour_probes(MetalDevice& device);
std::vector<runtime::Probe> form_probes(MetalDevice& device);
std::vector<runtime::Probe> node_probes(MetalDevice& device);
std::vector<runtime::Probe> recurrent_node_probes(MetalDevice& device);
std::vector<runtime::Probe> limit_probes(MetalDevice& device);
std::vector<runtime::Probe> package_probes(MetalDevice& device);

// Create a probe. Exceptions of Apple's frameworks become errors of this library.
runtime::Probe probe(MetalDevice& device, const char* name, const char* question, const char* method,
                     const char* meaning, std::string (*ask)(MetalDevice&));

}  // namespace mpsgraph::metal
