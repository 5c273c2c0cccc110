// Linear interpolation of rows of floats in 32-byte vectors.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/sampling/resize_float.inc"
