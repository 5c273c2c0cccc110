// MPSMatrix, MPSVector, their descriptors, and their temporary forms.
//
// They allocate managed memory, which exposes programs that read it without synchronizing or fill it without
// didModifyRange:. The recommended strides of rows and matrices are larger than necessary, which exposes programs that
// ignore them.
#include "mps/core/matrix.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

constexpr size_t alignment = 16;  // of the recommended row stride, in bytes

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

MockBuffer* allocate(id<MTLDevice> device, size_t bytes, const Reads& reads) {
  id<MTLBuffer> made =
      [device newBufferWithLength:bytes options:reads ? MTLResourceStorageModePrivate : MTLResourceStorageModeManaged];
  if (!made) misuse(@"failed to allocate %lu bytes", bytes);
  MockBuffer* buffer = static_cast<MockBuffer*>(made);
  if (reads) reads->spoil = [buffer] { spoil(buffer); };
  return buffer;
}

void require_room(NSString* what, id<MTLBuffer> buffer, NSUInteger offset, size_t bytes, MPSDataType type) {
  if (!buffer) misuse(@"%@: the buffer must not be nil", what);
  if (offset % element_bytes(type) != 0)
    misuse(@"%@: byte offset %lu must be a multiple of the element size", what, offset);
  if (offset > buffer.length || bytes > buffer.length - offset)
    misuse(@"%@: %lu bytes at offset %lu do not fit into a buffer of %lu bytes", what, bytes, offset, buffer.length);
}

void synchronize(MockBuffer* buffer, id<MTLCommandBuffer> commands) {
  // memory that is not managed is ignored, as documented
  if (!buffer || buffer.storageMode != MTLStorageModeManaged) return;
  [commands_of(commands) encodeWork:[buffer] { [buffer synchronize]; }];
}

}  // namespace

// --- descriptors -----------------------------------------------------------------------------------------------------

@implementation MPSMatrixDescriptor {
  NSUInteger _matrices, _matrixBytes;
}
@synthesize rows = _rows, columns = _columns, rowBytes = _rowBytes, dataType = _dataType;

+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                matrices:(NSUInteger)matrices
                                rowBytes:(NSUInteger)rowBytes
                             matrixBytes:(NSUInteger)matrixBytes
                                dataType:(MPSDataType)type {
  const size_t element = element_bytes(type);
  if (rows < 1 || columns < 1 || matrices < 1)
    misuse(@"matrix sizes must be at least 1, got %lu matrices of %lu x %lu", matrices, rows, columns);
  if (rowBytes % element != 0 || rowBytes < columns * element)
    misuse(@"rowBytes must be a multiple of the element size and hold %lu columns of %s, got %lu", columns,
           type_name(type), rowBytes);
  if (matrices > 1 && (matrixBytes % rowBytes != 0 || matrixBytes < rows * rowBytes))
    misuse(@"matrixBytes must be a multiple of rowBytes and hold %lu rows of %lu bytes, got %lu", rows, rowBytes,
           matrixBytes);
  MPSMatrixDescriptor* descriptor = [[self alloc] init];
  descriptor.rows = rows;
  descriptor.columns = columns;
  descriptor.rowBytes = rowBytes;
  descriptor.dataType = type;
  descriptor->_matrices = matrices;
  descriptor->_matrixBytes = matrixBytes;
  return descriptor;
}
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                rowBytes:(NSUInteger)rowBytes
                                dataType:(MPSDataType)type {
  return [self matrixDescriptorWithRows:rows
                                columns:columns
                               matrices:1
                               rowBytes:rowBytes
                            matrixBytes:rows * rowBytes
                               dataType:type];
}
+ (size_t)rowBytesForColumns:(NSUInteger)columns dataType:(MPSDataType)type {
  return aligned(columns * element_bytes(type));
}
- (NSUInteger)matrices {
  return _matrices;
}
- (NSUInteger)matrixBytes {
  return _matrixBytes;
}
@end

@implementation MPSVectorDescriptor {
  NSUInteger _vectors, _vectorBytes;
}
@synthesize length = _length, dataType = _dataType;

+ (instancetype)vectorDescriptorWithLength:(NSUInteger)length
                                   vectors:(NSUInteger)vectors
                               vectorBytes:(NSUInteger)vectorBytes
                                  dataType:(MPSDataType)type {
  if (length < 1 || vectors < 1)
    misuse(@"vector sizes must be at least 1, got %lu vectors of %lu elements", vectors, length);
  if (vectorBytes % element_bytes(type) != 0 || vectorBytes < length * element_bytes(type))
    misuse(@"vectorBytes must be a multiple of the element size and hold %lu elements of %s, got %lu", length,
           type_name(type), vectorBytes);
  MPSVectorDescriptor* descriptor = [[self alloc] init];
  descriptor.length = length;
  descriptor.dataType = type;
  descriptor->_vectors = vectors;
  descriptor->_vectorBytes = vectorBytes;
  return descriptor;
}
+ (instancetype)vectorDescriptorWithLength:(NSUInteger)length dataType:(MPSDataType)type {
  return [self vectorDescriptorWithLength:length vectors:1 vectorBytes:length * element_bytes(type) dataType:type];
}
+ (size_t)vectorBytesForLength:(NSUInteger)length dataType:(MPSDataType)type {
  return aligned(length * element_bytes(type));
}
- (NSUInteger)vectors {
  return _vectors;
}
- (NSUInteger)vectorBytes {
  return _vectorBytes;
}
@end

// --- matrices --------------------------------------------------------------------------------------------------------

@implementation MPSMatrix

- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSMatrixDescriptor*)given {
  if (!device || !given) misuse(@"a matrix requires a device and a descriptor");
  if (!(self = [super init])) return nil;
  owner = device;
  descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:given.rows
                                                     columns:given.columns
                                                    matrices:given.matrices
                                                    rowBytes:given.rowBytes
                                                 matrixBytes:given.matrixBytes
                                                    dataType:given.dataType];
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset descriptor:(MPSMatrixDescriptor*)given {
  if (!(self = [self initWithDevice:buffer.device descriptor:given])) return nil;
  // The last row does not need padding.
  const size_t bytes = (given.matrices - 1) * given.matrixBytes + (given.rows - 1) * given.rowBytes +
                       given.columns * element_bytes(given.dataType);
  require_room(@"a matrix", buffer, offset, bytes, given.dataType);
  storage = static_cast<MockBuffer*>(buffer);
  start = offset;
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSMatrixDescriptor*)given {
  return [self initWithBuffer:buffer offset:0 descriptor:given];
}

- (id<MTLDevice>)device {
  return owner;
}
- (NSUInteger)rows {
  return descriptor.rows;
}
- (NSUInteger)columns {
  return descriptor.columns;
}
- (NSUInteger)matrices {
  return descriptor.matrices;
}
- (NSUInteger)rowBytes {
  return descriptor.rowBytes;
}
- (NSUInteger)matrixBytes {
  return descriptor.matrixBytes;
}
- (MPSDataType)dataType {
  return descriptor.dataType;
}
- (NSUInteger)offset {
  return start;
}
- (id<MTLBuffer>)data {
  if (!storage) storage = allocate(owner, self.resourceSize, reads);
  return storage;
}
- (NSUInteger)resourceSize {
  return (descriptor.matrices - 1) * descriptor.matrixBytes + descriptor.rows * descriptor.rowBytes;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  synchronize(storage, buffer);
}
@end

@implementation MPSTemporaryMatrix
+ (instancetype)temporaryMatrixWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                matrixDescriptor:(MPSMatrixDescriptor*)given {
  MPSTemporaryMatrix* matrix = [[self alloc] initWithDevice:commands_of(buffer).device descriptor:given];
  matrix->reads = temporary_in(buffer, self);
  return matrix;
}
+ (void)prefetchStorageWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                    matrixDescriptorList:(NSArray<MPSMatrixDescriptor*>*)descriptors {
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSMatrixDescriptor*)given {
  misuse(@"initWithBuffer:descriptor: is not available for temporary matrices");
}
- (NSUInteger)readCount {
  return reads->reads;
}
- (void)setReadCount:(NSUInteger)count {
  set_reads(reads, count);
}
@end

// --- vectors ---------------------------------------------------------------------------------------------------------

@implementation MPSVector

- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSVectorDescriptor*)given {
  if (!device || !given) misuse(@"a vector requires a device and a descriptor");
  if (!(self = [super init])) return nil;
  owner = device;
  descriptor = [MPSVectorDescriptor vectorDescriptorWithLength:given.length
                                                       vectors:given.vectors
                                                   vectorBytes:given.vectorBytes
                                                      dataType:given.dataType];
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset descriptor:(MPSVectorDescriptor*)given {
  if (!(self = [self initWithDevice:buffer.device descriptor:given])) return nil;
  const size_t bytes = (given.vectors - 1) * given.vectorBytes + given.length * element_bytes(given.dataType);
  require_room(@"a vector", buffer, offset, bytes, given.dataType);
  storage = static_cast<MockBuffer*>(buffer);
  start = offset;
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSVectorDescriptor*)given {
  return [self initWithBuffer:buffer offset:0 descriptor:given];
}

- (id<MTLDevice>)device {
  return owner;
}
- (NSUInteger)length {
  return descriptor.length;
}
- (NSUInteger)vectors {
  return descriptor.vectors;
}
- (NSUInteger)vectorBytes {
  return descriptor.vectorBytes;
}
- (MPSDataType)dataType {
  return descriptor.dataType;
}
- (NSUInteger)offset {
  return start;
}
- (id<MTLBuffer>)data {
  if (!storage) storage = allocate(owner, self.resourceSize, reads);
  return storage;
}
- (NSUInteger)resourceSize {
  return descriptor.vectors * descriptor.vectorBytes;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  synchronize(storage, buffer);
}
@end

@implementation MPSTemporaryVector
+ (instancetype)temporaryVectorWithCommandBuffer:(id<MTLCommandBuffer>)buffer descriptor:(MPSVectorDescriptor*)given {
  MPSTemporaryVector* vector = [[self alloc] initWithDevice:commands_of(buffer).device descriptor:given];
  vector->reads = temporary_in(buffer, self);
  return vector;
}
+ (void)prefetchStorageWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                          descriptorList:(NSArray<MPSVectorDescriptor*>*)descriptors {
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSVectorDescriptor*)given {
  misuse(@"initWithBuffer:descriptor: is not available for temporary vectors");
}
- (NSUInteger)readCount {
  return reads->reads;
}
- (void)setReadCount:(NSUInteger)count {
  set_reads(reads, count);
}
@end

// --- for commands ----------------------------------------------------------------------------------------------------

namespace mock {

Rows rows_of(MPSMatrix* matrix, NSUInteger number) {
  if (!matrix || number >= matrix.matrices)
    misuse(@"matrix index %lu is out of range for %lu matrices", number, matrix.matrices);
  return {static_cast<MockBuffer*>(matrix.data), matrix.offset + number * matrix.matrixBytes, matrix.rowBytes,
          static_cast<int64_t>(matrix.rows),     static_cast<int64_t>(matrix.columns),        matrix.dataType};
}

Rows rows_of(MPSVector* vector, NSUInteger number) {
  if (!vector || number >= vector.vectors)
    misuse(@"vector index %lu is out of range for %lu vectors", number, vector.vectors);
  return {static_cast<MockBuffer*>(vector.data),
          vector.offset + number * vector.vectorBytes,
          vector.vectorBytes,
          1,
          static_cast<int64_t>(vector.length),
          vector.dataType};
}

}  // namespace mock
