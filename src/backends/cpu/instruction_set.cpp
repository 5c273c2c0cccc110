// Instruction set selection: CPUID, and an environment variable that overrides it. Both are read once.
#include "backends/cpu/instruction_set.h"

#include "backends/cpu/environment.h"

namespace mpsgraph::cpu {

std::string_view instruction_set() {
  static const std::string_view best = [] {
    const std::string_view wish = asked_for("MPSGRAPH_INSTRUCTION_SET", {"AVX-512", "AVX2", "baseline"});
    const auto wanted = [&](std::string_view set) { return wish.empty() || set == wish; };
#if defined(__x86_64__)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (has_avx512 && wanted("AVX-512")) return "AVX-512";
    if (has_avx2 && (wanted("AVX2") || wanted("AVX-512"))) return "AVX2";
#endif
    return "baseline";
  }();
  return best;
}

}  // namespace mpsgraph::cpu
