// Gauss-Jordan elimination with the baseline instruction set.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/matrix/elimination.inc"
