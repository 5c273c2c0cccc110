// Rotary embedding of rows in 32-byte vectors.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/rotary_embedding/rotary_rows.inc"
