// Gauss-Jordan elimination in vectors that are always there.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/matrix/elimination.inc"
