// Measured upper limits of this machine: the rate of multiply-adds on registers, and the memory bandwidth.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::runtime {
struct DeviceLimits;
}

namespace mpsgraph::cpu {

// Loops of multiply-adds on independent registers. Each runs `rounds` rounds and returns the number of FLOPs.
struct ArithmeticLoops {
  double (*float32)(int64_t rounds);
  double (*float64)(int64_t rounds);
};
MPSGRAPH_VECTOR_TABLE(ArithmeticLoops, arithmetic_loops);
namespace avx512 {
double bfloat16_loop(int64_t rounds);  // requires AVX512_BF16
double integer_loop(int64_t rounds);   // 8-bit products summed in int32; requires AVX512_VNNI
}  // namespace avx512
namespace amx {  // requires AMX
double bfloat16_loop(int64_t rounds);
double integer_loop(int64_t rounds);
}  // namespace amx

// Measure the limits of this machine with all threads. Takes about a tenth of a second.
runtime::DeviceLimits measure_limits();

}  // namespace mpsgraph::cpu
