// The instruction set that kernels use, and a macro that selects the matching version of code compiled once per set.
#pragma once

#include <string_view>

namespace mpsgraph::cpu {

// Return the widest instruction set this processor supports, or the one that MPSGRAPH_INSTRUCTION_SET requests:
// "AVX-512", "AVX2", or "baseline".
std::string_view instruction_set();

}  // namespace mpsgraph::cpu

// Select avx512::name, avx2::name, or baseline::name. Other architectures than x86 compile only the baseline version,
// so the macro must not mention the other two there.
#if defined(__x86_64__)
#define MPSGRAPH_BY_INSTRUCTION_SET(name)                         \
  (::mpsgraph::cpu::instruction_set() == "AVX-512" ? avx512::name \
   : ::mpsgraph::cpu::instruction_set() == "AVX2"  ? avx2::name   \
                                                   : baseline::name)
#else
#define MPSGRAPH_BY_INSTRUCTION_SET(name) (baseline::name)
#endif
