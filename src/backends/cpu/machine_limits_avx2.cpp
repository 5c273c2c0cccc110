// Peak arithmetic of AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#define MPSGRAPH_CHAINS 12
#include "backends/cpu/machine_limits.inc"
