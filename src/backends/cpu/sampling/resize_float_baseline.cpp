// Linear interpolation of rows of floats in 16-byte vectors.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/sampling/resize_float.inc"
