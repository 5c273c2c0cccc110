// Gauss-Jordan elimination in 32-byte vectors.
#define MPSGRAPH_ISA avx2
#include "backends/cpu/matrix/elimination.inc"
