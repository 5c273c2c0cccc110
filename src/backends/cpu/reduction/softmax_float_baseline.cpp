// Softmax of rows in 16-byte vectors.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/reduction/softmax_float.inc"
