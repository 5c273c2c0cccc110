// Peak arithmetic of the baseline instruction set.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#define MPSGRAPH_CHAINS 10
#include "backends/cpu/machine_limits.inc"
