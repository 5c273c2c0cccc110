// Gauss-Jordan elimination in 64-byte vectors.
#define MPSGRAPH_ISA avx512
#include "backends/cpu/matrix/elimination.inc"
