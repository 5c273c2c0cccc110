// Gathering by indices.
//
// Apple's documentation gives the formulas, and defines out-of-range indices (as zero) only for gatherAlongAxis, so the
// others refuse them. Known from PyTorch's backend: gathers of bool, uint8, and complex numbers do not work. Known from
// jax-mps, whose tests run on Macs: integers are converted to float32 (../apple/behaviour.md).
#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace mock {

Value through_float32(const Value& value) {
  if (!is_whole(value.type) || element_bytes(value.type) < 4) return value;
  const bool natural = is_unsigned(value.type);
  const int bits = static_cast<int>(8 * element_bytes(value.type)) - (natural ? 0 : 1);
  Value result(value.type, value.dims);
  for (int64_t i = 0; i < value.count(); ++i) {
    const float single = natural ? static_cast<float>(value.natural(i)) : static_cast<float>(value.whole(i));
    const bool beyond = single >= std::ldexp(1.0f, bits);  // rounded up to one more than the largest integer
    const uint64_t most = ~uint64_t{0} >> (64 - bits);
    result.set(i, beyond    ? static_cast<int64_t>(most)
                  : natural ? static_cast<int64_t>(static_cast<uint64_t>(single))
                            : static_cast<int64_t>(single));
  }
  return result;
}

}  // namespace mock

namespace {

void require_gathered(const Value& updates, const Value& indices) {
  if (updates.type == MPSDataTypeBool || updates.type == MPSDataTypeUInt8 || is_complex(updates.type))
    misuse(@"gather: %s is not known to work", type_name(updates.type));
  if (indices.type != MPSDataTypeInt32)
    misuse(@"gather: indices must be int32, as in all known callers, got %s", type_name(indices.type));
}

// res[p0 ... p(axis-1), iB ... iQ, p(axis+1) ...] = updates[p0 ... p(axis-1), indices[p0 ... p(B-1), iB ... iQ], ...]
Value gathered(const Value& updates, const Value& indices, size_t axis, size_t batch) {
  require_gathered(updates, indices);
  if (axis >= updates.rank() || batch > axis || batch > indices.rank())
    misuse(@"gather: axis %lu is out of range, or less than the %lu batch dimensions", axis, batch);
  if (!std::equal(indices.dims.begin(), indices.dims.begin() + static_cast<int64_t>(batch), updates.dims.begin()))
    misuse(@"gather: batch dimensions must be equal, got %@ and %@", text_of(updates.dims), text_of(indices.dims));
  const size_t picks = indices.rank() - batch;
  Dims dims(updates.dims.begin(), updates.dims.begin() + static_cast<int64_t>(axis));
  dims.insert(dims.end(), indices.dims.begin() + static_cast<int64_t>(batch), indices.dims.end());
  dims.insert(dims.end(), updates.dims.begin() + static_cast<int64_t>(axis) + 1, updates.dims.end());
  Value result(updates.type, dims);
  const Dims from = strides_of(updates.dims), places = strides_of(indices.dims);
  int64_t next = 0;
  for_each_position(dims, [&](const Dims& position) {
    Dims place(indices.rank()), source(updates.rank());
    for (size_t i = 0; i < batch; ++i) place[i] = position[i];
    for (size_t i = 0; i < picks; ++i) place[batch + i] = position[axis + i];
    for (size_t i = 0; i < axis; ++i) source[i] = position[i];
    source[axis] = indices.whole(offset_of(place, places));
    for (size_t i = axis + 1; i < source.size(); ++i) source[i] = position[i + picks - 1];
    if (source[axis] < 0 || source[axis] >= updates.dims[axis])
      misuse(@"gather: index %lld is out of range for an axis of size %lld", (long long)source[axis],
             (long long)updates.dims[axis]);
    result.copy(next++, updates, offset_of(source, from));
  });
  return through_float32(result);
}

}  // namespace

@implementation MPSGraph (MockGather)

- (MPSGraphTensor*)gatherWithUpdatesTensor:(MPSGraphTensor*)updates
                             indicesTensor:(MPSGraphTensor*)indices
                                      axis:(NSUInteger)axis
                           batchDimensions:(NSUInteger)batch
                                      name:(NSString*)name {
  return add_one(self, @"gather", name, {updates, indices},
                 [=](const Values& in) { return gathered(in[0], in[1], axis, batch); });
}

- (MPSGraphTensor*)gatherAlongAxis:(NSInteger)axis
                 withUpdatesTensor:(MPSGraphTensor*)updates
                     indicesTensor:(MPSGraphTensor*)indices
                              name:(NSString*)name {
  return add_one(self, @"gather_along_axis", name, {updates, indices}, [=](const Values& in) {
    require_gathered(in[0], in[1]);
    const size_t at = axis_of(axis, in[0].rank());
    Dims expected = in[0].dims;
    expected[at] = in[1].rank() == in[0].rank() ? in[1].dims[at] : 0;
    if (at + 1 < expected.size() && expected.back() == 1)
      misuse(@"gatherAlongAxis: a last axis of size 1 aborts on a Mac, got axis %lu of %@", at, text_of(in[0].dims));
    if (in[1].dims != expected)
      misuse(@"gatherAlongAxis: indices of shape %@ do not match axis %lu of %@", text_of(in[1].dims), at,
             text_of(in[0].dims));
    Value result(in[0].type, in[1].dims);
    const Dims strides = strides_of(in[0].dims);
    int64_t next = 0;
    for_each_position(in[1].dims, [&](const Dims& position) {
      Dims source = position;
      source[at] = in[1].whole(next);
      if (source[at] >= 0 && source[at] < in[0].dims[at]) result.copy(next, in[0], offset_of(source, strides));
      ++next;
    });
    return through_float32(result);
  });
}
@end
