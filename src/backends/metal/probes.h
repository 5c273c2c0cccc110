// Questions about MPSGraph and Metal that their documentation leaves open, for the self-test on a Mac.
#pragma once

#include <string>
#include <vector>

#include "backends/metal/device.h"
#include "runtime/framework_oracle.h"

namespace mpsgraph::metal {

// Each builds a small MPSGraph of its own, runs it and says what came out. `device` outlives them.
std::vector<runtime::Probe> probes(MetalDevice& device);  // all
std::vector<runtime::Probe> random_probes(MetalDevice& device);
std::vector<runtime::Probe> recurrent_probes(MetalDevice& device);
std::vector<runtime::Probe> behaviour_probes(MetalDevice& device);
std::vector<runtime::Probe> form_probes(MetalDevice& device);
std::vector<runtime::Probe> node_probes(MetalDevice& device);
std::vector<runtime::Probe> recurrent_node_probes(MetalDevice& device);
std::vector<runtime::Probe> limit_probes(MetalDevice& device);

// One; what the frameworks raise becomes an error of ours.
runtime::Probe probe(MetalDevice& device, const char* name, const char* question, const char* method,
                     const char* meaning, std::string (*ask)(MetalDevice&));

}  // namespace mpsgraph::metal
