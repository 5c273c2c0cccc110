// Cumulative sums and products along rows with AVX-512.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/reduction/row_scans.inc"
