// Reversal of the order of items with vectors, compiled for each instruction set with byte shuffles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Set to[i] to from[n - 1 - i] for n items of `size` bytes (1, 2, 4, or 8). The buffers must not overlap.
using ReverseItems = void (*)(std::byte* to, const std::byte* from, int64_t n, int64_t size);

MPSGRAPH_OPTIONAL_TABLE(ReverseItems, reverse_items);

}  // namespace mpsgraph::cpu
