// The instruction set that kernels use, and tables of functions that are compiled once per instruction set.
//
// A vector kernel is one source file, NAME.simd.cpp. The build compiles it once per instruction set with that set's
// compiler options. The macro MPSGRAPH_ISA is the namespace (baseline, avx2, or avx512; on Arm, neon), and
// MPSGRAPH_VECTOR_BYTES is the size of a vector (simd.h). The kernel defines a table of its functions in that
// namespace. The kernel's header declares the table for all sets, and a function of the same name that returns the
// table for this processor:
//
//   MPSGRAPH_VECTOR_TABLE(SoftmaxRows, softmax_rows);          // softmax_float.h, in namespace cpu
//   constinit const SoftmaxRows softmax_rows{exponents, ...};  // softmax_float.simd.cpp, in namespace MPSGRAPH_ISA
//   softmax_rows().scale(factor, n, y);                        // anywhere
//
// A kernel that is compiled for other sets lists them in its second line, which the build reads: "// Instruction sets:
// avx2, avx512." The macro that declares its table must match. Files named NAME_SET.cpp contain code for one set only.
#pragma once

#include <string_view>

namespace mpsgraph::cpu {

// Return the widest instruction set this processor supports, or the one that MPSGRAPH_INSTRUCTION_SET requests:
// "AVX-512", "AVX2", or "baseline" on x86-64; "NEON-bf16", "NEON-dotprod", or "NEON" on Arm.
//
// On Arm, all kernels use NEON, and some are also compiled for extensions: neon_dotprod for dot products of bytes, and
// neon_bf16 for the extensions BF16 and I8MM, which processors have together.
std::string_view instruction_set();

// Return the version for instruction_set(), on x86-64.
template <class T>
const T* by_instruction_set(const T* baseline, const T* avx2, const T* avx512) {
  const std::string_view set = instruction_set();
  return set == "AVX-512" ? avx512 : set == "AVX2" ? avx2 : baseline;
}

}  // namespace mpsgraph::cpu

// MPSGRAPH_VECTOR_TABLE: a table for all sets.
// MPSGRAPH_OPTIONAL_TABLE: a table for all sets but baseline. The function returns a pointer, null on other processors.
// MPSGRAPH_SHORT_VECTOR_TABLE: a table for baseline, AVX2, and NEON. Processors with AVX-512 use the version for AVX2.
#define MPSGRAPH_DECLARE_TABLE(set, type, name) \
  namespace set {                               \
  extern const type name;                       \
  }
#if defined(__x86_64__)
#define MPSGRAPH_VECTOR_TABLE(type, name)                                                        \
  MPSGRAPH_DECLARE_TABLE(baseline, type, name)                                                   \
  MPSGRAPH_DECLARE_TABLE(avx2, type, name)                                                       \
  MPSGRAPH_DECLARE_TABLE(avx512, type, name)                                                     \
  inline const type& name() {                                                                    \
    static const type& table = *by_instruction_set(&baseline::name, &avx2::name, &avx512::name); \
    return table;                                                                                \
  }                                                                                              \
  static_assert(true)
#define MPSGRAPH_OPTIONAL_TABLE(type, name)                                                         \
  MPSGRAPH_DECLARE_TABLE(avx2, type, name)                                                          \
  MPSGRAPH_DECLARE_TABLE(avx512, type, name)                                                        \
  inline const type* name() {                                                                       \
    static const type* const table = by_instruction_set<type>(nullptr, &avx2::name, &avx512::name); \
    return table;                                                                                   \
  }                                                                                                 \
  static_assert(true)
#define MPSGRAPH_SHORT_VECTOR_TABLE(type, name)                                                \
  MPSGRAPH_DECLARE_TABLE(baseline, type, name)                                                 \
  MPSGRAPH_DECLARE_TABLE(avx2, type, name)                                                     \
  inline const type& name() {                                                                  \
    static const type& table = *by_instruction_set(&baseline::name, &avx2::name, &avx2::name); \
    return table;                                                                              \
  }                                                                                            \
  static_assert(true)
#elif defined(__aarch64__)
#define MPSGRAPH_VECTOR_TABLE(type, name)          \
  MPSGRAPH_DECLARE_TABLE(neon, type, name)         \
  inline const type& name() { return neon::name; } \
  static_assert(true)
#define MPSGRAPH_OPTIONAL_TABLE(type, name)         \
  MPSGRAPH_DECLARE_TABLE(neon, type, name)          \
  inline const type* name() { return &neon::name; } \
  static_assert(true)
#define MPSGRAPH_SHORT_VECTOR_TABLE MPSGRAPH_VECTOR_TABLE
#else  // other architectures have only baseline versions
#define MPSGRAPH_VECTOR_TABLE(type, name)              \
  MPSGRAPH_DECLARE_TABLE(baseline, type, name)         \
  inline const type& name() { return baseline::name; } \
  static_assert(true)
#define MPSGRAPH_OPTIONAL_TABLE(type, name)     \
  inline const type* name() { return nullptr; } \
  static_assert(true)
#define MPSGRAPH_SHORT_VECTOR_TABLE MPSGRAPH_VECTOR_TABLE
#endif
