// Standard normals from many random words for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/random/normals.inc"
