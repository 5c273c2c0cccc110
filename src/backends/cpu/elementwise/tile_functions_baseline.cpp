// float32 tile functions for the baseline instruction set; the build sets the compiler flags of this file.
#define MPSGRAPH_ISA baseline
#define MPSGRAPH_VECTOR_BYTES 16
#include "backends/cpu/elementwise/tile_functions_float.inc"
