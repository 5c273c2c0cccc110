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
#else
inline constexpr bool has_onednn = false;
inline std::string onednn_version() { return "no oneDNN"; }
#endif

}  // namespace mpsgraph::cpu
