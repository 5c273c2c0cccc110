// Pooling of float32 for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/pooling/pooling_float.inc"
