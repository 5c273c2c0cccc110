// Layer normalization loops for the baseline instruction set.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/normalization/layer_normalization.inc"
