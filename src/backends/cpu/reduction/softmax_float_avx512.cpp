// Softmax of rows in 64-byte vectors.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/reduction/softmax_float.inc"
