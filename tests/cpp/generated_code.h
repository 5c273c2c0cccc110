// Runs generated vector code on arrays, for the tests of jit/.
#pragma once

#include <cstring>
#include <vector>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/jit/code_memory.h"
#include "backends/cpu/jit/vector_code.h"
#include "check.h"

namespace generated {

using namespace mpsgraph::cpu::jit;
using NodeKind = mpsgraph::cpu::jit::Kind;

// Return the instruction sets for which this processor can run code.
inline std::vector<VectorSet> supported_sets() {
#if defined(__aarch64__)
  return {VectorSet::neon};
#else
  if (mpsgraph::cpu::instruction_set() == "AVX-512") return {VectorSet::avx2, VectorSet::avx512};
  if (mpsgraph::cpu::instruction_set() == "AVX2") return {VectorSet::avx2};
  return {};
#endif
}

// Return the argument that selects the last `rest` elements. AVX2 code cannot use it if elements are narrower than a
// lane.
inline uint64_t tail_argument(VectorSet set, int lane_bytes, int64_t rest) {
  alignas(64) static constexpr int32_t signs[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  if (rest == 0) return 0;
  if (set == VectorSet::avx2) return reinterpret_cast<uint64_t>(signs + 8 - rest * lane_bytes / 4);
  return set == VectorSet::avx512 ? (uint64_t{1} << rest) - 1 : static_cast<uint64_t>(rest);
}

// Run code over n elements. For AVX2, all elements must be as wide as a lane, or n a multiple of the lanes.
inline void run(const VectorCode& code, const std::vector<void*>& arrays, int64_t n, float* sums = nullptr) {
  const auto memory = CodeMemory::make(generate(code));
  CHECK(memory != nullptr);
  if (!memory) return;
  std::vector<std::byte*> streams;
  for (void* array : arrays) streams.push_back(static_cast<std::byte*>(array));
  const int64_t rest = n % lanes_of(code.set, code.lane_bytes);
  memory->entry<Function>()(streams.data(), n - rest, tail_argument(code.set, code.lane_bytes, rest), sums);
}

}  // namespace generated
