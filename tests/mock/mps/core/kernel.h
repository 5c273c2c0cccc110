// How kernels of Metal Performance Shaders encode work, and what temporary objects allow.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <functional>
#include <memory>

#include "graph/value.h"
#include "metal/resource.h"

namespace mock {

// The command buffer that commands go to: an MPSCommandBuffer's present one.
MockCommandBuffer* commands_of(id<MTLCommandBuffer> buffer);

using Reads = std::shared_ptr<Temporary>;  // null for what is not temporary
Reads temporary_in(id<MTLCommandBuffer> buffer, Class what);
Reads reads_of(id object);  // an image, matrix, vector or state
void set_reads(const Reads& reads, NSUInteger count);

// Encodes work that reads and writes these images, matrices, vectors and states. Each distinct object that it reads
// loses one of its reads, and of a temporary object none may be used that has no reads left or lives in another command
// buffer. The work must not hold the objects themselves, whose life is the application's, but their memory.
void encode(id<MTLCommandBuffer> buffer, NSString* who, NSArray* reads, NSArray* writes, std::function<void()> work);

// A temporary object's memory as the next user may find it.
void spoil(MockResource* resource);

// Elements in rows that may be padded, in a buffer; for commands while they run.
struct Rows {
  MockBuffer* buffer = nil;
  size_t start = 0, row_bytes = 0;
  int64_t rows = 0, columns = 0;
  MPSDataType type = MPSDataTypeFloat32;

  Value load() const;  // of rows x columns
  void store(const Value& value) const;
};

// All elements of a buffer, from an offset on, as one row.
Rows floats_of(id<MTLBuffer> buffer, NSUInteger offset, NSUInteger count);

}  // namespace mock
