// Integer keys with the order of the numbers they represent, for sorts and running extrema.
//
// Apple does not document how its kernels compare NaN and infinities, or in which order they return equal elements.
// Integers avoid these cases. A float's bits are read as an integer; for a negative number, all bits but the sign are
// inverted. These integers have the same order as the floats. Keys exist for each dtype.
#pragma once

#include "backends/metal/lowering.h"

namespace mpsgraph::metal {

// Keys are int32, or int64 for 64-bit integers. Keys compare like the elements of x, and equal elements have equal
// keys. The key of NaN is above the keys of all numbers, or below them if `nan_above` is false.
DType order_key_type(DType dtype);
MPSGraphTensor* order_key(const Lowering& l, MPSGraphTensor* x, DType dtype, bool nan_above = true);
// Convert a key back to the number that it represents.
MPSGraphTensor* number_of_key(const Lowering& l, MPSGraphTensor* key, DType dtype);
// Return the key of the largest value of the dtype if `above` is set, otherwise of the smallest value. For floats,
// these values are infinity and minus infinity.
int64_t last_key(DType dtype, bool above);

// Return, as int32, the permutation that sorts the keys along the last axis in ascending order. The sort is stable.
MPSGraphTensor* ascending_order(const Lowering& l, MPSGraphTensor* keys);

}  // namespace mpsgraph::metal
