// GEMM in float and double with the baseline instruction set.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/matrix/gemm_tiles.inc"
