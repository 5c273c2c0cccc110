// The order of numbers, as integers: what sorts and running extrema compare.
//
// What Apple's kernels do with NaN in comparisons, with infinities at the ends and with equal elements is not stated.
// Integers have none of these: a float's bits, read as an integer, are ordered like the float when those of negative
// numbers are inverted, so each element type has a key.
#pragma once

#include "backends/metal/lowering.h"

namespace mpsgraph::metal {

// int32, or int64 for 64-bit integers: ordered as x is, equal where x is. NaN is above all, or below all.
DType order_key_type(DType dtype);
MPSGraphTensor* order_key(const Lowering& l, MPSGraphTensor* x, DType dtype, bool nan_above = true);
// The number that has this key.
MPSGraphTensor* number_of_key(const Lowering& l, MPSGraphTensor* key, DType dtype);
// The key, as an integer, of what is above or below all numbers of the type; infinity for floats.
int64_t last_key(DType dtype, bool above);

// For each place along the last axis of keys the place of the element that belongs there, int32. Equal elements keep
// their order.
MPSGraphTensor* ascending_order(const Lowering& l, MPSGraphTensor* keys);

}  // namespace mpsgraph::metal
