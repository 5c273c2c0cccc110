// What this machine can do at most: multiply-adds from registers, bytes between memory and processor. Measured.
#pragma once

#include <cstdint>

namespace mpsgraph::runtime {
struct DeviceLimits;
}

namespace mpsgraph::cpu {

// Multiply-adds of independent registers, `rounds` times; returns how many FLOPs that were.
struct ArithmeticLoops {
  double (*float32)(int64_t rounds);
  double (*float64)(int64_t rounds);
};
namespace baseline {
extern const ArithmeticLoops arithmetic_loops;
}
namespace avx2 {
extern const ArithmeticLoops arithmetic_loops;
}
namespace avx512 {
extern const ArithmeticLoops arithmetic_loops;
double bfloat16_loop(int64_t rounds);  // needs AVX512_BF16
double integer_loop(int64_t rounds);   // of bytes into int32 sums; needs AVX512_VNNI
}  // namespace avx512
namespace amx {  // need AMX
double bfloat16_loop(int64_t rounds);
double integer_loop(int64_t rounds);
}  // namespace amx

// By all threads; takes about a tenth of a second.
runtime::DeviceLimits measure_limits();

}  // namespace mpsgraph::cpu
