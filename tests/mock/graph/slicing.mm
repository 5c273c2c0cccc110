// Strided slices and their updates.
//
// Apple's documentation: "semantics based on TensorFlow Strided Slice", with masks that ignore starts and ends. So
// negative numbers count from the end, out-of-range numbers are clamped, and with a negative stride a masked end
// includes the first element. Measured by others on Apple's systems: updates refuse an end mask and a squeeze mask.
#include <algorithm>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

struct Steps {
  Dims first, stride, count;
};

bool has_bit(uint32_t mask, size_t axis) { return (mask >> axis & 1) != 0; }

Steps steps_of(const Dims& dims, const Dims& starts, const Dims& ends, const Dims& strides, uint32_t start_mask,
               uint32_t end_mask) {
  const size_t rank = dims.size();
  if (starts.size() != rank || ends.size() != rank || strides.size() != rank)
    misuse(@"slice: starts %@, ends %@, and strides %@ must have one entry per axis of %@", text_of(starts),
           text_of(ends), text_of(strides), text_of(dims));
  Steps steps{Dims(rank), strides, Dims(rank)};
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t size = dims[axis], stride = strides[axis];
    if (stride == 0) misuse(@"slice: the stride of axis %lu must not be 0", axis);
    int64_t start = starts[axis] < 0 ? starts[axis] + size : starts[axis];
    int64_t end = ends[axis] < 0 ? ends[axis] + size : ends[axis];
    if (has_bit(start_mask, axis)) start = stride > 0 ? 0 : size - 1;
    if (has_bit(end_mask, axis)) end = stride > 0 ? size : -1;
    start = std::clamp<int64_t>(start, 0, size - (stride < 0));
    end = std::clamp<int64_t>(end, -1, size);
    int64_t count = 0;
    for (int64_t i = start; stride > 0 ? i < end : i > end; i += stride) ++count;
    steps.first[axis] = start;
    steps.count[axis] = count;
  }
  return steps;
}

Dims source_of(const Steps& steps, const Dims& position) {
  Dims source(position.size());
  for (size_t axis = 0; axis < position.size(); ++axis)
    source[axis] = steps.first[axis] + position[axis] * steps.stride[axis];
  return source;
}

}  // namespace

@implementation MPSGraph (MockSlicing)

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray<NSNumber*>*)starts
                          ends:(NSArray<NSNumber*>*)ends
                       strides:(NSArray<NSNumber*>*)strides
                     startMask:(uint32_t)startMask
                       endMask:(uint32_t)endMask
                   squeezeMask:(uint32_t)squeezeMask
                          name:(NSString*)name {
  const Dims from = dims_of(starts), to = dims_of(ends), by = dims_of(strides);
  return add_one(self, @"slice", name, {tensor}, [=](const Values& in) {
    if (is_complex(in[0].type)) misuse(@"slice: complex numbers are not known to work");
    const Steps steps = steps_of(in[0].dims, from, to, by, startMask, endMask);
    Value result(in[0].type, steps.count);
    const Dims offsets = strides_of(in[0].dims);
    int64_t next = 0;
    for_each_position(steps.count, [&](const Dims& position) {
      result.copy(next++, in[0], offset_of(source_of(steps, position), offsets));
    });
    Dims left;
    for (size_t axis = 0; axis < steps.count.size(); ++axis) {
      if (!has_bit(squeezeMask, axis)) left.push_back(steps.count[axis]);
      if (has_bit(squeezeMask, axis) && steps.count[axis] != 1)
        misuse(@"slice: a squeezed axis must have size 1, but axis %lu does not", axis);
    }
    return result.reshaped(left);
  });
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray<NSNumber*>*)starts
                          ends:(NSArray<NSNumber*>*)ends
                       strides:(NSArray<NSNumber*>*)strides
                          name:(NSString*)name {
  return [self sliceTensor:tensor
                    starts:starts
                      ends:ends
                   strides:strides
                 startMask:0
                   endMask:0
               squeezeMask:0
                      name:name];
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                     dimension:(NSUInteger)dimension
                         start:(NSInteger)start
                        length:(NSInteger)length
                          name:(NSString*)name {
  return add_one(self, @"slice", name, {tensor}, [=](const Values& in) {
    const size_t axis = axis_of(static_cast<int64_t>(dimension), in[0].rank());
    const int64_t size = in[0].dims[axis], first = start < 0 ? start + size : start;
    if (first < 0 || length <= 0 || first + length > size)
      misuse(@"slice: %ld elements from %ld are out of range for an axis of size %lld", (long)length, (long)start,
             (long long)size);
    Dims dims = in[0].dims;
    dims[axis] = length;
    Value result(in[0].type, dims);
    const Dims offsets = strides_of(in[0].dims);
    int64_t next = 0;
    for_each_position(dims, [&](const Dims& position) {
      Dims source = position;
      source[axis] += first;
      result.copy(next++, in[0], offset_of(source, offsets));
    });
    return result;
  });
}

- (MPSGraphTensor*)sliceUpdateDataTensor:(MPSGraphTensor*)data
                            updateTensor:(MPSGraphTensor*)update
                                  starts:(NSArray<NSNumber*>*)starts
                                    ends:(NSArray<NSNumber*>*)ends
                                 strides:(NSArray<NSNumber*>*)strides
                               startMask:(uint32_t)startMask
                                 endMask:(uint32_t)endMask
                             squeezeMask:(uint32_t)squeezeMask
                                    name:(NSString*)name {
  const Dims from = dims_of(starts), to = dims_of(ends), by = dims_of(strides);
  if (endMask != 0 || squeezeMask != 0) misuse(@"slice update: end masks and squeeze masks are refused on a Mac");
  return add_one(self, @"slice_update", name, {data, update}, [=](const Values& in) {
    if (is_complex(in[0].type)) misuse(@"slice update: complex numbers are not known to work");
    const Steps steps = steps_of(in[0].dims, from, to, by, startMask, endMask);
    if (in[0].type != in[1].type || in[1].dims != steps.count)
      misuse(@"slice update: the update must have the data's type and shape %@, got shape %@", text_of(steps.count),
             text_of(in[1].dims));
    Value result = in[0];
    const Dims offsets = strides_of(in[0].dims);
    int64_t next = 0;
    for_each_position(steps.count, [&](const Dims& position) {
      result.copy(offset_of(source_of(steps, position), offsets), in[1], next++);
    });
    return result;
  });
}
@end
