// The loops of layer normalization for the instruction set that is always there.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/normalization/layer_normalization.inc"
