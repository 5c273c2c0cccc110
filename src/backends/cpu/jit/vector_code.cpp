// Recording of VectorCode. Equal nodes are recorded only once, except for nodes with side effects.
#include "backends/cpu/jit/vector_code.h"

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu::jit {

bool converts_bfloat16([[maybe_unused]] VectorSet set) {
#if defined(__x86_64__)
  return set == VectorSet::avx512 && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
  return set == VectorSet::neon && instruction_set() == "NEON-bf16";
#else
  return false;
#endif
}

int VectorCode::record(Node node) {
  const bool acts = node.kind == Kind::store || node.kind == Kind::accumulate;
  if (node.kind == Kind::accumulate) node.stream = accumulators++;
  if (!acts)
    if (const auto known = known_.find(node); known != known_.end()) return known->second;
  const int number = static_cast<int>(nodes.size());
  nodes.push_back(node);
  if (!acts) known_.emplace(node, number);
  return number;
}

}  // namespace mpsgraph::cpu::jit
