// Sorting unsigned keys in vectors: quicksort whose partitions and smallest parts are vector instructions.
//
// Not stable, which keys that are all different, or that are the elements themselves, cannot tell.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Does the processor have the vectors for it? Else rows are sorted by radix (sort_row.h).
bool sorts_keys_in_vectors();

// Are long rows of elements of four bytes sorted by buckets (sort_buckets.h)? Intel's cores partition so fast that
// these only cost: a million int32 take 3.3 ms by quicksort and 4.2 by buckets on a fifth generation Xeon, 3.6 and 2.8
// on an EPYC of Zen 4.
bool sorts_words_by_buckets();

namespace avx512 {
// Sorts keys[0, n) on `threads` threads; `spare` is memory for as many. Key: uint32_t or uint64_t.
template <class Key>
void sort_keys(Key* keys, Key* spare, int64_t n, int threads);
}  // namespace avx512

}  // namespace mpsgraph::cpu
