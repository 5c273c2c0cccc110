// Items in the opposite order, in vectors, once per vector set that shuffles bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsgraph::cpu {

// to[i] is the item of `size` bytes, 1, 2, 4 or 8, at from[n - 1 - i]. They do not overlap.
using ReverseItems = void (*)(std::byte* to, const std::byte* from, int64_t n, int64_t size);

namespace avx2 {
void reverse_items(std::byte* to, const std::byte* from, int64_t n, int64_t size);
}
namespace avx512 {
void reverse_items(std::byte* to, const std::byte* from, int64_t n, int64_t size);
}

}  // namespace mpsgraph::cpu
