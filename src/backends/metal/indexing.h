// Code shared by gathers, scatters, slices, scans, and sorts: axes, indices, and the dtypes that MPSGraph moves and
// adds exactly.
#pragma once

#include <functional>
#include <optional>

#include "backends/metal/lowering.h"

namespace mpsgraph::metal {

// A tensor viewed as [outer, n, inner], where n is the size of one axis, `outer` is the product of the sizes of all
// axes before it, and `inner` is the product of the sizes of all axes after it.
struct Lanes {
  Lanes(const Dims& dims, int64_t axis);
  int64_t outer = 1, n = 1, inner = 1;
  Dims dims() const { return {outer, n, inner}; }
  Dims dims(int64_t length) const { return {outer, length, inner}; }
  // Return the dims without a trailing axis of size 1, because gathers and scatters along an axis may abort the process
  // if there is such an axis.
  Dims short_dims() const { return inner == 1 ? Dims{outer, n} : dims(); }
};

// Valid int32 indices in [0, size), and a bool tensor that marks where the original indices were valid; the bool tensor
// is null if all indices are known to be valid.
struct Picks {
  MPSGraphTensor* index;
  MPSGraphTensor* inside;
};
Picks picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t size,
            const std::optional<Ints>& known = {});
// Return int32 indices for gathers and scatters along an axis. Out-of-range indices become -1, which MPSGraph ignores.
MPSGraphTensor* along_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype);
// Convert indices of any integer type to int32 or int64. Indices that were out of range remain out of range.
MPSGraphTensor* signed_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype);
// Convert index vectors [..., depth] to positions along one axis that combines all batches and the indexed axes, whose
// sizes are `sizes`. The result has rank 1.
Picks flat_picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t batches, int64_t vectors,
                 const Dims& sizes, const std::optional<Ints>& known);

// Apply f to tensors of type `dtype` converted to `as`, and convert the result back. Complex tensors are processed as
// real and imaginary parts.
using OfTensors = std::function<MPSGraphTensor*(const GraphTensors&)>;
MPSGraphTensor* carried(const Lowering& l, DType dtype, DType as, const GraphTensors& tensors, const OfTensors& f);
// Apply f to the tensors, or separately to the real and imaginary parts of complex tensors, because moving complex
// numbers is not documented.
MPSGraphTensor* by_parts(const Lowering& l, const GraphTensors& tensors, const OfTensors& f);
// Return the dtype in which padding and slices move elements: int8 for bool, int16 for uint8, and `dtype` otherwise.
// According to PyTorch's backend, padding and slices of bool fail.
DType moved_as(DType dtype);
// Integers of 8 and 16 bits, float16, and bfloat16 are summed in 32 bits. Integers then wrap to the same values when
// they are cast back, and floats are rounded only once.
DType summed_as(DType dtype);

// --- gathers and scatters --------------------------------------------------------------------------------------------
//
// MPSGraph's gathers and scatters convert integers to float32, as jax-mps found, so integers above 2^24 are wrong.
// Integers are therefore passed as float32 values that represent them exactly. Integers of 32 and 64 bits are split
// into 16-bit parts for moving and into bytes for adding.

using OfTensor = std::function<MPSGraphTensor*(MPSGraphTensor*)>;
// Apply f, which only moves elements or inserts zeros, to x of type `dtype`. f receives tensors of moving_type().
MPSGraphTensor* moved(const Lowering& l, DType dtype, MPSGraphTensor* x, const OfTensor& f);
DType moving_type(DType dtype);
MPSGraphTensor* moved_along(const Lowering& l, DType dtype, MPSGraphTensor* x, MPSGraphTensor* indices, int64_t axis);
// Apply f, which adds at most `count` elements into one position, to x of type `dtype`. f receives tensors of
// summing_type(). Throws UnsupportedError if the sum of `count` elements might not be exact in float32.
MPSGraphTensor* added(const Lowering& l, DType dtype, MPSGraphTensor* x, int64_t count, const OfTensor& f);
DType summing_type(DType dtype);
// Split integers into parts, lowest first, as non-negative float32 values; `as` is uint8 or uint16. joined_parts()
// reverses this for 16-bit parts.
GraphTensors parts_of_integers(const Lowering& l, MPSGraphTensor* x, DType dtype, DType as);
MPSGraphTensor* joined_parts(const Lowering& l, const GraphTensors& parts, DType dtype);

}  // namespace mpsgraph::metal
