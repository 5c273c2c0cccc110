// Positions of index vectors with AVX-512.
#define MPSGRAPH_ISA avx512
#include "backends/cpu/gather/nd_positions.inc"
