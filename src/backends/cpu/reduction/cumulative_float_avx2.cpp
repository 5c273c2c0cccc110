// Running sums of rows of floats with AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/reduction/cumulative_float.inc"
