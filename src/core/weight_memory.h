// Memory for the bytes of large constants.
#pragma once

#include <cstddef>
#include <memory>

namespace mpsgraph {

// Uninitialized memory. Once there are many, large blocks share huge pages; each block returns its own pages when it is
// freed.
std::shared_ptr<std::byte> weight_memory(size_t bytes);

}  // namespace mpsgraph
