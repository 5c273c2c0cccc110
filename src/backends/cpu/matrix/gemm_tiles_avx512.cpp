// GEMM in float and double with 64-byte vectors.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/matrix/gemm_tiles.inc"
