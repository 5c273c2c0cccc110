// Reductions of rows and columns with AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/reduction/row_reductions.inc"
