// Slices and slice updates with computed starts are composed of gathers and masks along the axes that they do not cover
// completely.
//
// MPSGraph's slices with tensor starts require macOS 15.2, and Apple does not document their result for out-of-range
// starts; slices with constant starts that are out of range abort the process. Indices are therefore computed here and
// clamped to the range.
#include <algorithm>
#include <cstdlib>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/ops/shape.h"

namespace mpsgraph::metal {
namespace {

struct Window {
  Dims full, sizes;
  Ints strides;
  size_t starts;  // index of the operand that holds the starts

  bool covers(size_t axis) const { return sizes[axis] == full[axis] && (strides[axis] == 1 || sizes[axis] == 1); }

  // Return the start along an axis, as an int32 tensor with one element.
  MPSGraphTensor* start(const Lowering& l, size_t axis) const {
    const Steps s(l);
    MPSGraphTensor* all = signed_indices(l, l.input(starts), l.dtype(starts));
    const DType wide = all.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
    MPSGraphTensor* given = s.slice(all, 0, static_cast<int64_t>(axis), 1);
    const int64_t n = full[axis], reach = (sizes[axis] - 1) * strides[axis];
    MPSGraphTensor* negative = s.less(given, l.ints({0}, wide));
    MPSGraphTensor* from_front = s.select(negative, s.add(given, l.ints({n}, wide)), given);
    const int64_t least = std::max<int64_t>(-reach, 0), most = n - 1 - std::max<int64_t>(reach, 0);
    return s.cast(s.minimum(s.maximum(from_front, l.ints({least}, wide)), l.ints({most}, wide)), DType::int32);
  }
};

GraphTensors lower_dynamic_slice(Lowering& l) {
  const Steps s(l);
  const Window window{l.dims(), l.result_dims(), ops::window_strides(l.attributes(), l.dims().size()), 1};
  return {moved(l, l.dtype(), l.input(), [&](MPSGraphTensor* part) {
    for (size_t axis = 0; axis < window.full.size(); ++axis) {
      if (window.covers(axis)) continue;
      MPSGraphTensor* steps = s.multiply(s.coordinate(0, {window.sizes[axis]}), l.ints({window.strides[axis]}));
      part = [l.graph() gatherWithUpdatesTensor:part
                                  indicesTensor:s.add(steps, window.start(l, axis))
                                           axis:axis
                                batchDimensions:0
                                           name:nil];
    }
    return part;
  })};
}

// Update a slice whose starts are computed: spread the update over the whole range of the data along each axis, and use
// a mask to select it at the updated positions.
GraphTensors lower_dynamic_slice_update_data(Lowering& l) {
  const Steps s(l);
  const Dims &dims = l.result_dims(), &sizes = l.dims(1);
  if (element_count(sizes) == 0 || element_count(dims) == 0) return {l.input(0)};
  const Window window{dims, sizes, ops::window_strides(l.attributes(), dims.size()), 2};
  MPSGraphTensor* mask = nil;
  MPSGraphTensor* update = moved(l, l.dtype(), l.input(1), [&](MPSGraphTensor* spread) {
    mask = nil;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (window.covers(axis)) continue;
      MPSGraphTensor *here = s.coordinate(0, {dims[axis]}), *start = window.start(l, axis);
      const bool back = window.strides[axis] < 0;
      MPSGraphTensor* step = l.ints({std::abs(window.strides[axis])});  // the absolute value avoids a division by -1
      MPSGraphTensor* offset = back ? s.subtract(start, here) : s.subtract(here, start);
      MPSGraphTensor* place = s.divide(offset, step);
      MPSGraphTensor* own = s.both(s.equal(s.multiply(place, step), offset),
                                   s.both(s.less(l.ints({-1}), place), s.less(place, l.ints({sizes[axis]}))));
      spread = [l.graph() gatherWithUpdatesTensor:spread
                                    indicesTensor:s.select(own, place, l.ints({0}))
                                             axis:axis
                                  batchDimensions:0
                                             name:nil];
      Dims along(dims.size(), 1);
      along[axis] = dims[axis];
      own = s.reshape(own, along);
      mask = mask ? s.both(mask, own) : own;
    }
    return spread;
  });
  if (!mask) return {update};
  return {carried(l, l.dtype(), moved_as(l.dtype()), {l.input(0), update},
                  [&](const GraphTensors& in) { return s.select(s.broadcast(mask, dims), in[1], in[0]); })};
}

}  // namespace

const Lowerings dynamic_slicing_lowerings("dynamic_slicing", [] {
  define_lowering("dynamic_slice", lower_dynamic_slice);
  define_lowering("dynamic_slice_update_data", lower_dynamic_slice_update_data);
});

}  // namespace mpsgraph::metal
