// Positions that indices pick, for the baseline processor.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/gather/nd_positions.inc"
