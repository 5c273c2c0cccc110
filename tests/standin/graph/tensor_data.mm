// MPSGraphTensorData: an array of a type, in a buffer.
#include "graph/graph.h"
#include "metal/standin_metal.h"
#include "mps/core/ndarray.h"

using namespace standin;

@interface MPSGraphTensorData () {
 @package
  MPSNDArray* array;
}
@end

@implementation MPSGraphTensorData
- (instancetype)initWithMPSNDArray:(MPSNDArray*)given {
  if ((self = [super init])) array = given;
  return self;
}
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer shape:(MPSShape*)shape dataType:(MPSDataType)type {
  if (!buffer) misuse(@"tensor data without a buffer");
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:type shape:shape];
  descriptor.preferPackedRows = YES;
  return [self initWithMPSNDArray:[[MPSNDArray alloc] initWithBuffer:buffer offset:0 descriptor:descriptor]];
}
- (MPSShape*)shape {
  return array->shape;
}
- (MPSDataType)dataType {
  return array->type;
}
- (MPSNDArray*)mpsndarray {
  return array;
}
- (MPSGraphDevice*)device {
  return [MPSGraphDevice deviceWithMTLDevice:array.device];
}
@end

namespace standin {

Value load(MPSGraphTensorData* data) {
  MPSNDArray* array = data->array;
  return Value::of(array->type, dims_of(array->shape), static_cast<const char*>(array->buffer.contents) + array->start);
}

void store(const Value& value, MPSGraphTensorData* data) {
  MPSNDArray* array = data->array;
  value.store(static_cast<char*>(array->buffer.contents) + array->start);
}

}  // namespace standin
