// The amount of memory that this process may use, so that impossible requests are rejected before any work is done for
// them. Allocations themselves are counted in buffer.cpp.
#pragma once

#include <cstddef>

namespace mpsgraph::runtime {

size_t memory_limit();              // physical memory, or the container's limit if that is lower
void require_memory(size_t bytes);  // throws OutOfMemoryError if an allocation of this size cannot succeed

}  // namespace mpsgraph::runtime
