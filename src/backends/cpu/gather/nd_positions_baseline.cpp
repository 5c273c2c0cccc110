// Location of index picks for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/gather/nd_positions.inc"
