// How much memory this process may use: what can be refused before anybody works towards it.
// What is allocated counts itself (buffer.cpp); this is the limit only.
#pragma once

#include <cstddef>

namespace mpsgraph::runtime {

size_t memory_limit();              // physical memory, or less in a container
void require_memory(size_t bytes);  // DeviceError when no allocation of that size can be met

}  // namespace mpsgraph::runtime
