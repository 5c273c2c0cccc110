// What an MPSMatrix or MPSVector of the stand-in is: rows in a buffer.
#pragma once

#include "mps/core/kernel.h"

namespace standin {

Rows rows_of(MPSMatrix* matrix, NSUInteger number = 0);  // one of its matrices
Rows rows_of(MPSVector* vector, NSUInteger number = 0);  // one row

}  // namespace standin

@interface MPSMatrix () {
 @package
  MPSMatrixDescriptor* descriptor;
  id<MTLDevice> owner;
  StandinBuffer* storage;  // nil until it is needed
  NSUInteger start;
  standin::Reads reads;
}
@end

@interface MPSVector () {
 @package
  MPSVectorDescriptor* descriptor;
  id<MTLDevice> owner;
  StandinBuffer* storage;
  NSUInteger start;
  standin::Reads reads;
}
@end
