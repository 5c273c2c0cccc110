// Which instruction set the kernels use, and the choice of what stands once in each of their namespaces.
#pragma once

#include <string_view>

namespace mpsgraph::cpu {

// Of this processor the widest, or what MPSGRAPH_INSTRUCTION_SET asks for: "AVX-512", "AVX2", "baseline".
std::string_view instruction_set();

}  // namespace mpsgraph::cpu

// avx512::name, avx2::name or baseline::name. Elsewhere than on x86 there is only the last one, and what is not
// compiled must not be named.
#if defined(__x86_64__)
#define MPSGRAPH_BY_INSTRUCTION_SET(name)                         \
  (::mpsgraph::cpu::instruction_set() == "AVX-512" ? avx512::name \
   : ::mpsgraph::cpu::instruction_set() == "AVX2"  ? avx2::name   \
                                                   : baseline::name)
#else
#define MPSGRAPH_BY_INSTRUCTION_SET(name) (baseline::name)
#endif
