// Recurrent steps in float32 with AVX-512.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/recurrent/recurrent_float.inc"
