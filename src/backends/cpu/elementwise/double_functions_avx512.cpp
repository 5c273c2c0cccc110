// Functions of float64 in vectors of 64 bytes.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/elementwise/double_functions.inc"
