// Products of float and double in vectors that are always there.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/matrix/gemm_tiles.inc"
