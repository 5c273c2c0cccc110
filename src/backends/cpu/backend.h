// Registration of the CPU device and its kernels.
#pragma once

#include <string>

namespace mpsgraph::cpu {

// Register Device("cpu"). Loading the library calls this; calling it again has no effect.
void register_backend();
// Return a description of the CPU device, for example "AVX-512, 2 threads".
std::string describe();

}  // namespace mpsgraph::cpu
