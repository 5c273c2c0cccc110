// Gauss-Jordan elimination in vectors of 64 bytes.
#define MPSGRAPH_ISA avx512
#include "backends/cpu/matrix/elimination.inc"
