// How kernels of Metal Performance Shaders encode work, and the rules for temporary objects.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <functional>
#include <memory>

#include "graph/value.h"
#include "metal/resource.h"

namespace mock {

// Return the command buffer that receives commands; for an MPSCommandBuffer, its current one.
MockCommandBuffer* commands_of(id<MTLCommandBuffer> buffer);

using Reads = std::shared_ptr<Temporary>;  // null if the object is not temporary
Reads temporary_in(id<MTLCommandBuffer> buffer, Class what);
Reads reads_of(id object);  // of an image, matrix, vector, or state
void set_reads(const Reads& reads, NSUInteger count);

// Encode work that reads and writes the given images, matrices, vectors, and states.
//
// The call consumes one read of each distinct object that it reads. It raises if a temporary object has no reads left
// or belongs to another command buffer. The work must capture the memory of the objects rather than the objects
// themselves, whose lifetime the application controls.
void encode(id<MTLCommandBuffer> buffer, NSString* who, NSArray* reads, NSArray* writes, std::function<void()> work);

// Overwrite the memory of a temporary object, which its next user may find in any state.
void spoil(MockResource* resource);

// Rows of elements in a buffer, possibly padded, for commands while they run.
struct Rows {
  MockBuffer* buffer = nil;
  size_t start = 0, row_bytes = 0;
  int64_t rows = 0, columns = 0;
  MPSDataType type = MPSDataTypeFloat32;

  Value load() const;  // in the shape [rows, columns]
  void store(const Value& value) const;
};

// Return float32 elements of a buffer, starting at an offset, as a single row.
Rows floats_of(id<MTLBuffer> buffer, NSUInteger offset, NSUInteger count);

}  // namespace mock
