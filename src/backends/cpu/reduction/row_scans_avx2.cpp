// Cumulative sums and products along rows with AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/reduction/row_scans.inc"
