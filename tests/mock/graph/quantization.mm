// Dequantization of integers of 4 or 8 bits to floats: result = scale (tensor - zeroPoint), with scalars, lists along
// an axis, and tensors of groups along the last axis.
#include <algorithm>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

namespace {

// `parts` is the number of groups along each axis of the tensor, all of equal size.
Value dequantized(const Values& in, double zero_point, MPSDataType type, const Dims& parts) {
  const Value &x = in[0], &scale = in[1];
  if (x.type != MPSDataTypeInt8 && x.type != MPSDataTypeUInt8 && x.type != MPSDataTypeUInt4)
    misuse(@"dequantize: the tensor must be int8, uint8, or uint4, got %s", type_name(x.type));
  if ((type != MPSDataTypeFloat32 && type != MPSDataTypeFloat16) || scale.type != type)
    misuse(@"dequantize: result and scale must both be float32 or float16, got %s and %s", type_name(type),
           type_name(scale.type));
  if (in.size() > 2 && (in[2].type != x.type || in[2].dims != scale.dims))
    misuse(@"dequantize: the zero point must have the tensor's type and the scale's shape");
  if (scale.count() != count_of(parts) || parts.size() != x.rank())
    misuse(@"dequantize: scales of shape %@ do not match shape %@", text_of(scale.dims), text_of(x.dims));
  for (size_t axis = 0; axis < parts.size(); ++axis)
    if (x.dims[axis] % parts[axis])
      misuse(@"dequantize: scales of shape %@ do not divide shape %@ into equal groups", text_of(scale.dims),
             text_of(x.dims));
  Value result(type, x.dims);
  const Dims strides = strides_of(parts);
  int64_t i = 0;
  for_each_position(x.dims, [&](const Dims& position) {
    int64_t at = 0;
    for (size_t axis = 0; axis < parts.size(); ++axis)
      at += position[axis] / (x.dims[axis] / parts[axis]) * strides[axis];
    result.set(i, scale.real(at) * (x.real(i) - (in.size() > 2 ? in[2].real(at) : zero_point)));
    ++i;
  });
  return result;
}

// Scales with groups differ from the tensor along the last axis only. Raises before macOS 15.
const Dims& grouped(const Values& in) {
  if (mock_macos_version() < 15) misuse(@"dequantize: groups require macOS 15");
  const Dims &x = in[0].dims, &scale = in[1].dims;
  if (scale.size() != x.size() || !std::equal(scale.begin(), scale.end() - 1, x.begin()))
    misuse(@"dequantize: scales of shape %@ may differ from shape %@ along the last axis only", text_of(scale),
           text_of(x));
  return scale;
}

Dims along(const Value& x, NSInteger axis) {
  Dims parts(x.rank(), 1);
  const size_t at = axis_of(axis, x.rank());
  parts[at] = x.dims[at];
  return parts;
}

}  // namespace

@implementation MPSGraph (MockQuantization)

- (MPSGraphTensor*)dequantizeTensor:(MPSGraphTensor*)tensor
                              scale:(double)scale
                          zeroPoint:(double)zero_point
                           dataType:(MPSDataType)type
                               name:(NSString*)name {
  return add_one(self, @"dequantize", name, {tensor}, [=](const Values& in) {
    Value one(type, {1});
    one.set(0, scale);
    return dequantized({in[0], one}, zero_point, type, Dims(in[0].rank(), 1));
  });
}

- (MPSGraphTensor*)dequantizeTensor:(MPSGraphTensor*)tensor
                        scaleTensor:(MPSGraphTensor*)scale
                          zeroPoint:(double)zero_point
                           dataType:(MPSDataType)type
                               axis:(NSInteger)axis
                               name:(NSString*)name {
  return add_one(self, @"dequantize", name, {tensor, scale},
                 [=](const Values& in) { return dequantized(in, zero_point, type, along(in[0], axis)); });
}

- (MPSGraphTensor*)dequantizeTensor:(MPSGraphTensor*)tensor
                        scaleTensor:(MPSGraphTensor*)scale
                    zeroPointTensor:(MPSGraphTensor*)zero_point
                           dataType:(MPSDataType)type
                               axis:(NSInteger)axis
                               name:(NSString*)name {
  return add_one(self, @"dequantize", name, {tensor, scale, zero_point},
                 [=](const Values& in) { return dequantized(in, 0, type, along(in[0], axis)); });
}

- (MPSGraphTensor*)dequantizeTensor:(MPSGraphTensor*)tensor
                        scaleTensor:(MPSGraphTensor*)scale
                           dataType:(MPSDataType)type
                               name:(NSString*)name {
  return add_one(self, @"dequantizeGroups", name, {tensor, scale},
                 [=](const Values& in) { return dequantized(in, 0, type, grouped(in)); });
}

- (MPSGraphTensor*)dequantizeTensor:(MPSGraphTensor*)tensor
                        scaleTensor:(MPSGraphTensor*)scale
                    zeroPointTensor:(MPSGraphTensor*)zero_point
                           dataType:(MPSDataType)type
                               name:(NSString*)name {
  return add_one(self, @"dequantizeGroups", name, {tensor, scale, zero_point},
                 [=](const Values& in) { return dequantized(in, 0, type, grouped(in)); });
}
@end
