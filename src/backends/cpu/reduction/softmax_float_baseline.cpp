// Softmax of rows in vectors of 16 bytes.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/reduction/softmax_float.inc"
