// What gathers, scatters, slices, scans and sorts share: axes, indices, and the element types in which MPSGraph moves
// and sums what it cannot as it is.
#pragma once

#include <functional>
#include <optional>

#include "backends/metal/lowering.h"

namespace mpsgraph::metal {

// An axis of `n` elements among those before and behind it, which are one each.
struct Lanes {
  Lanes(const Dims& dims, int64_t axis);
  int64_t outer = 1, n = 1, inner = 1;
  Dims dims() const { return {outer, n, inner}; }
  Dims dims(int64_t length) const { return {outer, length, inner}; }
  // Without a last axis of one behind the lane: gathers and scatters along an axis may end the process there.
  Dims short_dims() const { return inner == 1 ? Dims{outer, n} : dims(); }
};

// Indices that all lie inside [0, size), int32, and where the given ones did: bool, null when all are known to.
struct Picks {
  MPSGraphTensor* index;
  MPSGraphTensor* inside;
};
Picks picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t size,
            const std::optional<Ints>& known = {});
// The same where what lies outside is left out: int32, as gathers and scatters along an axis take them, -1 outside.
MPSGraphTensor* along_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype);
// Integers of any type as int32 or int64, in which an index outside stays outside.
MPSGraphTensor* signed_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype);
// Rows of vectors of indices, [..., depth], as places in the flattened axes `sizes`, counted through batches: rank 1.
Picks flat_picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t batches, int64_t vectors,
                 const Dims& sizes, const std::optional<Ints>& known);

// f of the tensors, all of type `dtype`, as `as` and back; of complex ones of their real and of their imaginary parts.
using OfTensors = std::function<MPSGraphTensor*(const GraphTensors&)>;
MPSGraphTensor* carried(const Lowering& l, DType dtype, DType as, const GraphTensors& tensors, const OfTensors& f);
// f of the tensors as they are, of complex ones of their parts: what moves complex numbers is not documented to.
MPSGraphTensor* by_parts(const Lowering& l, const GraphTensors& tensors, const OfTensors& f);
// PyTorch's backend knows that padding and slices of bool fail.
DType moved_as(DType dtype);
// Small integers and halves are summed in 32 bits: integers wrap around the same, halves are rounded once.
DType summed_as(DType dtype);

// --- gathers and scatters --------------------------------------------------------------------------------------------
//
// Those of MPSGraph take integers through float32, as jax-mps found: above 2^24 other numbers come out. So integers go
// as float32 that holds them exactly: 32 and 64 bits in parts of 16 where they are moved, in bytes where they are
// added.

using OfTensor = std::function<MPSGraphTensor*(MPSGraphTensor*)>;
// f of x, of type `dtype`, where f only puts elements elsewhere, or zeros. It is given tensors of moving_type().
MPSGraphTensor* moved(const Lowering& l, DType dtype, MPSGraphTensor* x, const OfTensor& f);
DType moving_type(DType dtype);
MPSGraphTensor* moved_along(const Lowering& l, DType dtype, MPSGraphTensor* x, MPSGraphTensor* indices, int64_t axis);
// f of x where f adds elements up, at most `count` of them in one place. It is given tensors of summing_type().
// UnsupportedError when their number could leave what float32 counts.
MPSGraphTensor* added(const Lowering& l, DType dtype, MPSGraphTensor* x, int64_t count, const OfTensor& f);
DType summing_type(DType dtype);
// The parts of integers, lowest first, as float32 from 0 on: `as` is uint8 or uint16; and integers of those of 16.
GraphTensors parts_of_integers(const Lowering& l, MPSGraphTensor* x, DType dtype, DType as);
MPSGraphTensor* joined_parts(const Lowering& l, const GraphTensors& parts, DType dtype);

}  // namespace mpsgraph::metal
