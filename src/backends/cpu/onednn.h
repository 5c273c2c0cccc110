// oneDNN beneath our kernels: primitives made once when a program is compiled, run over frames.
//
// Only the onednn_*.cpp files include this with MPSGRAPH_ONEDNN; where the library is absent the plain
// kernels stay.
#pragma once

#include <cstdint>
#include <string>

namespace mpsgraph::cpu {

#ifdef MPSGRAPH_ONEDNN
inline constexpr bool has_onednn = true;
std::string onednn_version();
bool onednn_multiplies_bfloat16();  // on this processor
// Are the factors of a float32 product of this size packed, by all threads' oneDNN, or need not be? With AVX-512 only a
// transposed first factor need.
bool onednn_packs(int64_t rows, int64_t columns, int64_t steps, bool transposed = false);
#else
inline constexpr bool has_onednn = false;
inline std::string onednn_version() { return "no oneDNN"; }
inline bool onednn_multiplies_bfloat16() { return true; }  // whoever is there instead takes it
inline bool onednn_packs(int64_t, int64_t, int64_t, bool = false) { return false; }
#endif

}  // namespace mpsgraph::cpu
