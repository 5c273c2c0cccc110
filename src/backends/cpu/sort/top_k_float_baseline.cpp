// Search for the best floats of a row in 16-byte vectors.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/sort/top_k_float.inc"
