// Running sums of rows of floats with AVX-512.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/reduction/cumulative_float.inc"
