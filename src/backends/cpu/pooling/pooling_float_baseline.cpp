// Maximum pooling of float32 channels for the instruction set that is always there.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/pooling/pooling_float.inc"
