// Queries cache sizes from CPUID: leaf 4 on Intel, and the leaf with the same format on AMD.
#include "backends/cpu/streaming_stores.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mpsgraph::cpu {
namespace {

size_t largest_cache() {
  size_t largest = 0;
#if defined(__x86_64__)
  constexpr unsigned intel = 4, amd = 0x8000001d, most_caches = 8;
  for (const unsigned leaf : {intel, amd})
    for (unsigned cache = 0; cache < most_caches; ++cache) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      // cache type 0 marks the end of the list
      if (!__get_cpuid_count(leaf, cache, &a, &b, &c, &d) || (a & 31) == 0) break;
      const size_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1, sets = size_t{c} + 1;
      if (ways * partitions * line * sets > largest) largest = ways * partitions * line * sets;
    }
#endif
  return largest;
}

}  // namespace

size_t outermost_cache() {
  static const size_t bytes = largest_cache();
  return bytes;
}

}  // namespace mpsgraph::cpu
