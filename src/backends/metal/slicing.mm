// Slices, their gradient, and their update.
//
// MPSGraph's slices follow TensorFlow's semantics, like those of this library. MPSGraph's sliceGradient rejects strides
// and its slice update rejects masks. These operations therefore use slices with positive strides, applied to a
// reversed tensor if the stride is negative.
#include <algorithm>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/ops/shape.h"

namespace mpsgraph::metal {
namespace {

using Ranges = std::vector<ops::SliceRange>;

Ranges ranges_of(const Lowering& l, const Dims& dims) {
  Ranges ranges;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    ranges.push_back(*ops::slice_range(l.attributes(), static_cast<int>(axis), dims[axis]));
    if (ranges.back().count == 1) ranges.back().stride = 1;
  }
  return ranges;
}

GraphTensors lower_slice(Lowering& l) {
  if (l.rank() == 0) return {l.input()};
  Ints starts, ends, strides;
  uint32_t end_mask = 0;
  for (const ops::SliceRange& range : ranges_of(l, l.dims())) {
    const int64_t last = range.start + (range.count - 1) * range.stride, end = last + (range.stride > 0 ? 1 : -1);
    // A slice with a negative stride that ends at the first element needs an end mask, because an end of -1 would mean
    // the last element.
    if (end < 0) end_mask |= uint32_t{1} << starts.size();
    starts.push_back(range.start);
    ends.push_back(std::max<int64_t>(end, 0));
    strides.push_back(range.stride);
  }
  return {by_parts(l, {l.input()}, [&](const GraphTensors& in) {
    return [l.graph() sliceTensor:in[0]
                           starts:numbers(starts)
                             ends:numbers(ends)
                          strides:numbers(strides)
                        startMask:0
                          endMask:end_mask
                      squeezeMask:0
                             name:l.name()];
  })};
}

// The positions that a slice reads along each axis, in ascending order even if the stride is negative.
struct Places {
  Ints first, step, count, turned;  // `turned` lists the axes with a negative stride
  explicit Places(const Ranges& ranges) {
    for (size_t axis = 0; axis < ranges.size(); ++axis) {
      const ops::SliceRange& range = ranges[axis];
      const bool back = range.stride < 0;
      if (back) turned.push_back(static_cast<int64_t>(axis));
      first.push_back(back ? range.start + (range.count - 1) * range.stride : range.start);
      step.push_back(back ? -range.stride : range.stride);
      count.push_back(range.count);
    }
  }
  int64_t span(size_t axis) const { return (count[axis] - 1) * step[axis] + 1; }
  bool covers(size_t axis, int64_t size) const { return step[axis] == 1 && count[axis] == size; }
};

// Reshape a slice's result to all axes of the source, in memory order.
MPSGraphTensor* in_order(const Lowering& l, MPSGraphTensor* part, const Places& places) {
  part = l.reshape(part, places.count);
  return places.turned.empty() ? part : Steps(l).reverse(part, places.turned);
}

// Return a tensor of shape `dims` that contains `part` at the positions of the slice and zeros elsewhere.
MPSGraphTensor* placed(const Lowering& l, MPSGraphTensor* part, const Places& places, const Dims& dims) {
  const Steps s(l);
  MPSGraphTensor* result = in_order(l, part, places);
  Dims now = places.count;
  Ints right(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    right[axis] = dims[axis] - places.first[axis] - places.span(axis);
    if (places.step[axis] == 1) continue;
    // Insert the zeros that the stride skips after each element except the last.
    const Lanes lanes(now, static_cast<int64_t>(axis));
    const int64_t step = places.step[axis];
    result = s.pad_zeros(s.reshape(result, {lanes.outer, lanes.n, 1, lanes.inner}), {0, 0, 0, 0}, {0, 0, step - 1, 0});
    result = s.slice(s.reshape(result, lanes.dims(lanes.n * step)), 1, 0, places.span(axis));
    now[axis] = places.span(axis);
    result = s.reshape(result, now);
  }
  return now == dims ? result : s.pad_zeros(result, places.first, right);
}

GraphTensors lower_slice_gradient(Lowering& l) {
  const Dims& dims = l.result_dims();
  if (dims.empty()) return {l.input()};
  const Places places(ranges_of(l, dims));
  return {carried(l, l.dtype(), moved_as(l.dtype()), {l.input()},
                  [&](const GraphTensors& in) { return placed(l, in[0], places, dims); })};
}

// Return a mask of the updated elements: the conjunction of one mask vector per axis that the slice does not cover
// completely; null if all elements are updated.
MPSGraphTensor* places_mask(const Lowering& l, const Places& places, const Dims& dims) {
  const Steps s(l);
  MPSGraphTensor* mask = nil;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (places.covers(axis, dims[axis])) continue;
    Ints row(static_cast<size_t>(dims[axis]), 0);
    for (int64_t i = 0; i < places.count[axis]; ++i)
      row[static_cast<size_t>(places.first[axis] + i * places.step[axis])] = 1;
    Dims along(dims.size(), 1);
    along[axis] = dims[axis];
    MPSGraphTensor* own = s.reshape(s.cast(l.ints(row), DType::boolean), along);
    mask = mask ? s.both(mask, own) : own;
  }
  return mask;
}

GraphTensors lower_slice_update_data(Lowering& l) {
  const Dims& dims = l.result_dims();
  if (dims.empty()) return {l.input(1)};
  if (l.type(1).shape.elements() == 0) return {l.input(0)};
  const Places places(ranges_of(l, dims));
  if (METAL_AVAILABLE(14.4, 17.4)) {
    Ints ends = places.first;
    for (size_t axis = 0; axis < dims.size(); ++axis) ends[axis] += places.span(axis);
    return {by_parts(l, {l.input(0), l.input(1)}, [&](const GraphTensors& in) {
      return [l.graph() sliceUpdateDataTensor:in[0]
                                 updateTensor:in_order(l, in[1], places)
                                       starts:numbers(places.first)
                                         ends:numbers(ends)
                                      strides:numbers(places.step)
                                    startMask:0
                                      endMask:0
                                  squeezeMask:0
                                         name:l.name()];
    })};
  }
  return {carried(l, l.dtype(), moved_as(l.dtype()), {l.input(0), l.input(1)}, [&](const GraphTensors& in) {
    MPSGraphTensor* update = placed(l, in[1], places, dims);
    MPSGraphTensor* mask = places_mask(l, places, dims);
    return mask ? Steps(l).select(Steps(l).broadcast(mask, dims), update, in[0]) : update;
  })};
}

}  // namespace

const Lowerings slicing_lowerings("slicing", [] {
  define_lowering("slice", lower_slice);
  define_lowering("slice_gradient", lower_slice_gradient);
  define_lowering("slice_update_data", lower_slice_update_data);
});

}  // namespace mpsgraph::metal
