// float32 tile functions for the avx2 instruction set; the build gives this file its flags.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/elementwise/tile_functions_float.inc"
