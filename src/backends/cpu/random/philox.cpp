// Philox::generate: many blocks, with the widest vectors there are.

#include "backends/cpu/random/philox.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {

#ifdef __x86_64__
namespace avx2 {
void philox_eight_blocks(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high);
}
#endif

void Philox::generate(uint32_t* words, int64_t n) const {
  Philox at = *this;
#ifdef __x86_64__
  static const bool fast = instruction_set() != "baseline";
  for (; fast && n >= 8 && at.low_ < ~uint64_t{7}; n -= 8, words += 32, at.low_ += 8)
    avx2::philox_eight_blocks(words, key_, at.low_, at.high_);
#endif
  for (; n > 0; --n, words += 4, at.skip(1)) {
    const Block block = at.block();
    std::copy(block.begin(), block.end(), words);
  }
}

}  // namespace mpsgraph::cpu
