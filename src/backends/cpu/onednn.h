// oneDNN as the basis of some kernels: primitives are created when a program is compiled, and run on frames.
//
// Only the onednn_*.cpp files include this header with MPSGRAPH_ONEDNN defined. Builds without oneDNN use only the
// plain kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mpsgraph::cpu {

#ifdef MPSGRAPH_ONEDNN
inline constexpr bool has_onednn = true;
std::string onednn_version();
// Call f(), which compiles a program, and convert oneDNN's exceptions to OutOfMemoryError: while programs are compiled,
// only lack of memory causes oneDNN to throw.
void with_typed_errors(const std::function<void()>& f);
bool onednn_multiplies_bfloat16();  // whether oneDNN supports bfloat16 matmuls on this processor
// Return whether oneDNN, using all threads, either packs the operands of a float32 GEMM of this size or runs at full
// speed without packing. With AVX-512, only a transposed left operand needs packing.
bool onednn_packs(int64_t rows, int64_t columns, int64_t steps, bool transposed = false);
#else
inline constexpr bool has_onednn = false;
inline std::string onednn_version() { return "no oneDNN"; }
inline void with_typed_errors(const std::function<void()>& f) { f(); }
inline bool onednn_multiplies_bfloat16() { return true; }  // unused without oneDNN
inline bool onednn_packs(int64_t, int64_t, int64_t, bool = false) { return false; }
#endif

}  // namespace mpsgraph::cpu
