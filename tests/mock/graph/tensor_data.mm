// MPSGraphTensorData: an array of a type, in a buffer.
//
// It is not documented whether tensor data made from images, a matrix, or a vector shares their memory. Here it is a
// copy of their contents at creation, which exposes code that expects to see later changes, or to find a result in the
// matrix.
#include "graph/graph.h"
#include "metal/mock_metal.h"
#include "mps/core/image.h"
#include "mps/core/matrix.h"
#include "mps/core/ndarray.h"

using namespace mock;

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
  if (!buffer) misuse(@"tensor data: the buffer must not be nil");
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:type shape:shape];
  descriptor.preferPackedRows = YES;
  return [self initWithMPSNDArray:[[MPSNDArray alloc] initWithBuffer:buffer offset:0 descriptor:descriptor]];
}
- (instancetype)initWithCopyOf:(const Value&)value device:(id<MTLDevice>)device {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:value.type
                                                                            shape:shape_of(value.dims)];
  self = [self initWithMPSNDArray:[[MPSNDArray alloc] initWithDevice:device descriptor:descriptor]];
  store(value, self);
  return self;
}
- (instancetype)initWithMPSImageBatch:(MPSImageBatch*)images {
  require_alike(@"initWithMPSImageBatch:", images);
  const Pixels first = pixels_of(images[0]);
  Value all(first.type(), {static_cast<int64_t>(images.count), first.height, first.width, first.channels});
  int64_t next = 0;
  for (MPSImage* image in images) {
    if (image->reads) misuse(@"initWithMPSImageBatch: temporary images are not supported");
    const Value one = pixels_of(image).load();
    for (int64_t i = 0; i < one.count(); ++i) all.copy(next++, one, i);
  }
  return [self initWithCopyOf:all device:images[0].device];
}
- (instancetype)initWithMPSMatrix:(MPSMatrix*)matrix {
  return [self initWithMPSMatrix:matrix rank:2];
}
// The shapes for other ranks are not documented.
- (instancetype)initWithMPSMatrix:(MPSMatrix*)matrix rank:(NSUInteger)rank {
  if (!matrix || rank != 2 || matrix.matrices != 1 || matrix->reads)
    misuse(@"initWithMPSMatrix:rank: needs one non-temporary matrix and rank 2, got rank %lu and %lu matrices", rank,
           matrix.matrices);
  return [self initWithCopyOf:rows_of(matrix).load() device:matrix.device];
}
- (instancetype)initWithMPSVector:(MPSVector*)vector {
  return [self initWithMPSVector:vector rank:1];
}
- (instancetype)initWithMPSVector:(MPSVector*)vector rank:(NSUInteger)rank {
  if (!vector || rank != 1 || vector.vectors != 1 || vector->reads)
    misuse(@"initWithMPSVector:rank: needs one non-temporary vector and rank 1, got rank %lu and %lu vectors", rank,
           vector.vectors);
  const Value row = rows_of(vector).load();
  return [self initWithCopyOf:row.reshaped({row.count()}) device:vector.device];
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

namespace mock {

Value load(MPSGraphTensorData* data) {
  MPSNDArray* array = data->array;
  return Value::of(array->type, dims_of(array->shape), static_cast<const char*>(array->buffer.contents) + array->start);
}

void store(const Value& value, MPSGraphTensorData* data) {
  MPSNDArray* array = data->array;
  value.store(static_cast<char*>(array->buffer.contents) + array->start);
}

}  // namespace mock
