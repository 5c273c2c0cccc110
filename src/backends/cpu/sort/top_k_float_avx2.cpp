// The best of rows of floats in vectors of 32 bytes.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/sort/top_k_float.inc"
