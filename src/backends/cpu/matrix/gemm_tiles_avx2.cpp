// GEMM in float and double with 32-byte vectors.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/matrix/gemm_tiles.inc"
