// Reversal of the order of items with vectors, compiled for each instruction set with byte shuffles.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsgraph::cpu {

// Set to[i] to from[n - 1 - i] for n items of `size` bytes (1, 2, 4, or 8). The buffers must not overlap.
using ReverseItems = void (*)(std::byte* to, const std::byte* from, int64_t n, int64_t size);

namespace avx2 {
void reverse_items(std::byte* to, const std::byte* from, int64_t n, int64_t size);
}
namespace avx512 {
void reverse_items(std::byte* to, const std::byte* from, int64_t n, int64_t size);
}

}  // namespace mpsgraph::cpu
