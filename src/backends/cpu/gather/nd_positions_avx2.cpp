// Positions of index vectors with AVX2.
#define MPSGRAPH_ISA avx2
#include "backends/cpu/gather/nd_positions.inc"
