// Softmax of rows in 32-byte vectors.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/reduction/softmax_float.inc"
