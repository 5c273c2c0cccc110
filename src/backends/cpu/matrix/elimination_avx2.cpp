// Gauss-Jordan elimination in vectors of 32 bytes.
#define MPSGRAPH_ISA avx2
#include "backends/cpu/matrix/elimination.inc"
