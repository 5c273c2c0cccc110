// Philox with NEON: computes eight blocks at a time, of which each lane holds a word.
#include <arm_neon.h>

#include <cstdint>

namespace mpsgraph::cpu::neon {
namespace {

struct Product {
  uint32x4_t low, high;
};
inline Product product(uint32x4_t a, uint32_t b) {
  const auto first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a), b)),
             last = vreinterpretq_u32_u64(vmull_high_n_u32(a, b));
  return {vuzp1q_u32(first, last), vuzp2q_u32(first, last)};
}

}  // namespace

void philox_eight_blocks(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high, uint64_t step) {
  constexpr int halves = 2;  // two independent halves hide each other's latency
  uint32x4x4_t c[halves];
  for (int half = 0; half < halves; ++half) {
    uint32_t low[4], high[4];
    for (int block = 0; block < 4; ++block, counter_low += step) {
      low[block] = static_cast<uint32_t>(counter_low);
      high[block] = static_cast<uint32_t>(counter_low >> 32);
    }
    c[half] = {{vld1q_u32(low), vld1q_u32(high), vdupq_n_u32(static_cast<uint32_t>(counter_high)),
                vdupq_n_u32(static_cast<uint32_t>(counter_high >> 32))}};
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (auto& [w] : c) {
      const Product first = product(w[0], 0xD2511F53), second = product(w[2], 0xCD9E8D57);
      w[0] = second.high ^ w[1] ^ k0, w[1] = second.low;
      w[2] = first.high ^ w[3] ^ k1, w[3] = first.low;
    }
  for (int half = 0; half < halves; ++half) vst4q_u32(words + 16 * half, c[half]);
}

}  // namespace mpsgraph::cpu::neon
