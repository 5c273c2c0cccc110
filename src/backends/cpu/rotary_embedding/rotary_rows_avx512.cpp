// Rows turned by angles, in vectors of 64 bytes.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/rotary_embedding/rotary_rows.inc"
