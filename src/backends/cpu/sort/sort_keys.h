// Vectorized sorting of unsigned keys: quicksort that uses vector instructions for partitions and for the smallest
// parts.
//
// The sort is not stable, which makes no difference if keys are all different or are the elements themselves.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Return whether the processor has the required vector instructions; otherwise, rows are sorted by radix (sort_row.h).
bool sorts_keys_in_vectors();

// Return whether long rows of 4-byte elements are sorted by buckets (sort_buckets.h). Intel's cores partition so fast
// that buckets do not pay off: on a fifth-generation Xeon, sorting a million int32 takes 3.3 ms by quicksort and
// 4.2 ms by buckets. On a Zen 4 EPYC, the same sort takes 3.6 ms by quicksort and 2.8 ms by buckets.
bool sorts_words_by_buckets();

namespace avx512 {
// Sort keys[0, n) on `threads` threads, with scratch memory `spare` of the same size. Key is uint32_t or uint64_t.
template <class Key>
void sort_keys(Key* keys, Key* spare, int64_t n, int threads);
}  // namespace avx512

}  // namespace mpsgraph::cpu
