// Attention in tiles for the instruction set that is always there.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/matrix/attention_tiles.inc"
