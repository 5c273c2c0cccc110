// The CPU device: registration of its kernels and of the backend itself.
#pragma once

#include <string>

namespace mpsgraph::cpu {

// Makes Device("cpu") known; loading the library does. Idempotent.
void register_backend();
// "AVX-512, oneDNN 3.2, 2 threads"
std::string describe();

}  // namespace mpsgraph::cpu
