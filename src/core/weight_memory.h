// Memory for the bytes of large constants.
#pragma once

#include <cstddef>
#include <memory>

namespace mpsgraph {

// Returns uninitialized memory. Once the total size of large blocks exceeds a few megabytes, further blocks share huge
// pages. Each block returns its own pages when it is freed.
std::shared_ptr<std::byte> weight_memory(size_t bytes);

}  // namespace mpsgraph
