// Search for the best floats of a row in 32-byte vectors.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/sort/top_k_float.inc"
