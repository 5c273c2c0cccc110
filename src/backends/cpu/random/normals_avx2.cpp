// Standard normals from many random words with AVX2.
#define MPSGRAPH_ISA avx2
#include "backends/cpu/random/normals.inc"
