// Gauss-Jordan elimination on a block of columns of a matrix, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

constexpr int64_t eliminated_columns = 16;  // maximum columns per block

// Eliminate columns [first, first + count) of a matrix, with partial pivoting. Only these columns are read and written.
// `columns` holds n rows of `eliminated_columns` elements, which are zero beyond `count`. exchanged[k] is set to the
// row that was exchanged with row k. On return, `columns` holds these columns of the result. The elements of row i are
// also the factors by which the pivot rows are multiplied before they are added to row i of the remaining columns
// (matrix_inverse.cpp).
template <class T>
using Eliminate = void (*)(T* columns, int64_t n, int64_t first, int64_t count, int64_t* exchanged);

MPSGRAPH_VECTOR_TABLE(Eliminate<float>, eliminate_float);
MPSGRAPH_VECTOR_TABLE(Eliminate<double>, eliminate_double);

}  // namespace mpsgraph::cpu
