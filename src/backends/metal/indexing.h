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
};

// Indices that all lie inside [0, size), int32, and where the given ones did: bool, null when all are known to.
struct Picks {
  MPSGraphTensor* index;
  MPSGraphTensor* inside;
};
Picks picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t size,
            const std::optional<Ints>& known = {});
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
// PyTorch's backend knows that gathers of bool and uint8 fail; padding of bool likewise.
DType moved_as(DType dtype);
// Small integers and halves are summed in 32 bits: integers wrap around the same, halves are rounded once.
DType summed_as(DType dtype);

}  // namespace mpsgraph::metal
