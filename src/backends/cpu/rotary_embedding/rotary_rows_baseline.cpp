// Rotary embedding of rows in 16-byte vectors.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/rotary_embedding/rotary_rows.inc"
