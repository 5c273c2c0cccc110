// Sorting unsigned keys in vectors: quicksort whose partitions and smallest parts are vector instructions.
//
// Not stable, which keys that are all different, or that are the elements themselves, cannot tell.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Does the processor have the vectors for it? Else rows are sorted by radix (sort_row.h).
bool sorts_keys_in_vectors();

namespace avx512 {
// Sorts keys[0, n) on `threads` threads; `spare` is memory for as many. Key: uint32_t or uint64_t.
template <class Key>
void sort_keys(Key* keys, Key* spare, int64_t n, int threads);
}  // namespace avx512

}  // namespace mpsgraph::cpu
