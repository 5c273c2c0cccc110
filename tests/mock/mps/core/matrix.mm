// MPSMatrix, MPSVector, their descriptors and temporary forms.
//
// What they allocate is managed, so that a program that reads or fills it without synchronizing, or without
// didModifyRange:, is found out; rows are recommended wider than they need be, and matrices further apart.
#include "mps/core/matrix.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

constexpr size_t alignment = 16;  // bytes, of the rows that are recommended

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

MockBuffer* allocate(id<MTLDevice> device, size_t bytes, const Reads& reads) {
  id<MTLBuffer> made =
      [device newBufferWithLength:bytes options:reads ? MTLResourceStorageModePrivate : MTLResourceStorageModeManaged];
  if (!made) misuse(@"no memory for %lu bytes", bytes);
  MockBuffer* buffer = static_cast<MockBuffer*>(made);
  if (reads) reads->spoil = [buffer] { spoil(buffer); };
  return buffer;
}

void require_room(NSString* what, id<MTLBuffer> buffer, NSUInteger offset, size_t bytes, MPSDataType type) {
  if (!buffer) misuse(@"%@ without a buffer", what);
  if (offset % element_bytes(type) != 0) misuse(@"%@ at byte %lu, no multiple of its element's size", what, offset);
  if (offset > buffer.length || bytes > buffer.length - offset)
    misuse(@"%@ of %lu bytes from byte %lu on in a buffer of %lu", what, bytes, offset, buffer.length);
}

void synchronize(MockBuffer* buffer, id<MTLCommandBuffer> commands) {
  if (!buffer || buffer.storageMode != MTLStorageModeManaged) return;  // as documented
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
  if (rows < 1 || columns < 1 || matrices < 1) misuse(@"%lu matrices of %lu x %lu", matrices, rows, columns);
  if (rowBytes % element != 0 || rowBytes < columns * element)
    misuse(@"rowBytes of %lu for %lu columns of %s", rowBytes, columns, type_name(type));
  if (matrices > 1 && (matrixBytes % rowBytes != 0 || matrixBytes < rows * rowBytes))
    misuse(@"matrixBytes of %lu for %lu rows of %lu bytes", matrixBytes, rows, rowBytes);
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
  if (length < 1 || vectors < 1) misuse(@"%lu vectors of %lu elements", vectors, length);
  if (vectorBytes % element_bytes(type) != 0 || vectorBytes < length * element_bytes(type))
    misuse(@"vectorBytes of %lu for %lu elements of %s", vectorBytes, length, type_name(type));
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
  if (!device || !given) misuse(@"a matrix without a device or descriptor");
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
  // The last row need not be padded.
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
  misuse(@"initWithBuffer:descriptor: of a temporary matrix");
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
  if (!device || !given) misuse(@"a vector without a device or descriptor");
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
  misuse(@"initWithBuffer:descriptor: of a temporary vector");
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
  if (!matrix || number >= matrix.matrices) misuse(@"matrix %lu of %lu", number, matrix.matrices);
  return {static_cast<MockBuffer*>(matrix.data), matrix.offset + number * matrix.matrixBytes, matrix.rowBytes,
          static_cast<int64_t>(matrix.rows),     static_cast<int64_t>(matrix.columns),        matrix.dataType};
}

Rows rows_of(MPSVector* vector, NSUInteger number) {
  if (!vector || number >= vector.vectors) misuse(@"vector %lu of %lu", number, vector.vectors);
  return {static_cast<MockBuffer*>(vector.data),
          vector.offset + number * vector.vectorBytes,
          vector.vectorBytes,
          1,
          static_cast<int64_t>(vector.length),
          vector.dataType};
}

}  // namespace mock
