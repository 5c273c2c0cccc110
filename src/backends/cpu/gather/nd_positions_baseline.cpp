// Positions of index vectors for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/gather/nd_positions.inc"
