// Search for the best floats of a row in 64-byte vectors.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/sort/top_k_float.inc"
