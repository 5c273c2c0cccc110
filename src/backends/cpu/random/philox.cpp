// Philox::generate: computes many blocks at a time, with the widest available vectors.

#include "backends/cpu/random/philox.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Set words[4 b + w] to word w of block b, for eight blocks b with counter low words counter_low + b step. The
// additions must not overflow 64 bits.
using EightBlocks = void(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high, uint64_t step);
namespace avx2 {
EightBlocks philox_eight_blocks;
}
namespace neon {
EightBlocks philox_eight_blocks;
}

void Philox::generate(uint32_t* words, int64_t n, uint64_t step) const {
  Philox at = *this;
#if defined(__x86_64__)
  static EightBlocks* const eight = instruction_set() != "baseline" ? avx2::philox_eight_blocks : nullptr;
#elif defined(__aarch64__)
  constexpr EightBlocks* eight = neon::philox_eight_blocks;
#else
  constexpr EightBlocks* eight = nullptr;
#endif
  for (; eight && n >= 8 && at.low_ < ~(8 * step - 1); n -= 8, words += 32, at.low_ += 8 * step)
    eight(words, key_, at.low_, at.high_, step);
  for (; n > 0; --n, words += 4, at.skip(step)) {
    const Block block = at.block();
    std::copy(block.begin(), block.end(), words);
  }
}

}  // namespace mpsgraph::cpu
