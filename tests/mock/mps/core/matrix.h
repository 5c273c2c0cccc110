// MPSMatrix and MPSVector in the mock: rows in a buffer.
#pragma once

#include "mps/core/kernel.h"

namespace mock {

Rows rows_of(MPSMatrix* matrix, NSUInteger number = 0);  // of one of its matrices
Rows rows_of(MPSVector* vector, NSUInteger number = 0);  // a single row

}  // namespace mock

@interface MPSMatrix () {
 @package
  MPSMatrixDescriptor* descriptor;
  id<MTLDevice> owner;
  MockBuffer* storage;  // nil until first use
  NSUInteger start;
  mock::Reads reads;
}
@end

@interface MPSVector () {
 @package
  MPSVectorDescriptor* descriptor;
  id<MTLDevice> owner;
  MockBuffer* storage;
  NSUInteger start;
  mock::Reads reads;
}
@end
