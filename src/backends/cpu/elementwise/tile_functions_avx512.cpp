// float32 tile functions for the avx512 instruction set; the build gives this file its flags.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/elementwise/tile_functions_float.inc"
