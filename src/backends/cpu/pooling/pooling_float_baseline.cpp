// Maximum pooling of float32 channels for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/pooling/pooling_float.inc"
