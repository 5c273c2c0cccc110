// Integer matmul tiles with 16-byte vectors.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/matrix/integer_tiles.inc"
