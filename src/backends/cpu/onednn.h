// oneDNN beneath our kernels: primitives made once when a program is compiled, run over frames.
//
// Only the onednn_*.cpp files include this with MPSGRAPH_ONEDNN; where the library is absent the plain
// kernels stay.
#pragma once

#include <string>

namespace mpsgraph::cpu {

#ifdef MPSGRAPH_ONEDNN
inline constexpr bool has_onednn = true;
std::string onednn_version();
bool onednn_multiplies_bfloat16();  // on this processor
#else
inline constexpr bool has_onednn = false;
inline std::string onednn_version() { return "no oneDNN"; }
inline bool onednn_multiplies_bfloat16() { return true; }  // whoever is there instead takes it
#endif

}  // namespace mpsgraph::cpu
