// Philox::generate: computes many blocks at a time, with the widest available vectors.

#include "backends/cpu/random/philox.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

#ifdef __x86_64__
namespace avx2 {
void philox_eight_blocks(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high, uint64_t step);
}
#endif

void Philox::generate(uint32_t* words, int64_t n, uint64_t step) const {
  Philox at = *this;
#ifdef __x86_64__
  static const bool fast = instruction_set() != "baseline";
  for (; fast && n >= 8 && at.low_ < ~(8 * step - 1); n -= 8, words += 32, at.low_ += 8 * step)
    avx2::philox_eight_blocks(words, key_, at.low_, at.high_, step);
#endif
  for (; n > 0; --n, words += 4, at.skip(step)) {
    const Block block = at.block();
    std::copy(block.begin(), block.end(), words);
  }
}

}  // namespace mpsgraph::cpu
