// Pooling of float32 with AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/pooling/pooling_float.inc"
