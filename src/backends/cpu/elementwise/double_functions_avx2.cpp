// Functions of float64 in vectors of 32 bytes.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/elementwise/double_functions.inc"
