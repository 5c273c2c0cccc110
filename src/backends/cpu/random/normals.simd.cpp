// Standard normals from many random words.
// Instruction sets: baseline, avx2.
//
// The compiler vectorizes the loops. Logarithms and sines have separate loops, so that each loop has enough registers.
#include "backends/cpu/random/box_muller.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

void of_pairs(const uint32_t* words, int64_t pairs, float* out) {
  constexpr int64_t together = 128;
  float radius[together], sine[together], cosine[together];
  for (; pairs > 0; pairs -= together, words += 2 * together, out += 2 * together) {
    const int64_t n = std::min(pairs, together);
    for (int64_t i = 0; i < n; ++i) radius[i] = normals_radius(words[2 * i]);
    for (int64_t i = 0; i < n; ++i) {
      const SineAndCosine direction = normals_direction(words[2 * i + 1]);
      sine[i] = direction.sine * radius[i], cosine[i] = direction.cosine * radius[i];
    }
    for (int64_t i = 0; i < n; ++i) out[2 * i] = sine[i], out[2 * i + 1] = cosine[i];
  }
}

}  // namespace

constinit const Normals normals = of_pairs;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
