// Memory for the bytes of large constants.
#pragma once

#include <cstddef>
#include <memory>

namespace mpsgraph {

// Bytes that are not cleared. Once there are many, large ones share huge pages; each gives its own back when it goes.
std::shared_ptr<std::byte> weight_memory(size_t bytes);

}  // namespace mpsgraph
