// The instruction set that kernels use, and a macro that selects the matching version of code that is compiled once per
// instruction set.
#pragma once

#include <string_view>

namespace mpsgraph::cpu {

// Return the widest instruction set this processor supports, or the one that MPSGRAPH_INSTRUCTION_SET requests:
// "AVX-512", "AVX2", or "baseline".
std::string_view instruction_set();

}  // namespace mpsgraph::cpu

// Select avx512::name, avx2::name, or baseline::name. On architectures other than x86, only the baseline version is
// compiled, so the macro must not refer to the AVX versions.
#if defined(__x86_64__)
#define MPSGRAPH_BY_INSTRUCTION_SET(name)                         \
  (::mpsgraph::cpu::instruction_set() == "AVX-512" ? avx512::name \
   : ::mpsgraph::cpu::instruction_set() == "AVX2"  ? avx2::name   \
                                                   : baseline::name)
#else
#define MPSGRAPH_BY_INSTRUCTION_SET(name) (baseline::name)
#endif
