// Our types as Apple's: element types, shapes, constants.
//
// MPSGraph's arrays have at least one dimension here: a tensor of rank 0 is lowered as one of shape (1).
#pragma once

#include "backends/metal/frameworks.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/types.h"

namespace mpsgraph::metal {

// UnsupportedError for float64 and complex128, and for types that the system is too old for. `where` ends the message.
MPSDataType data_type(DType dtype, const std::string& where = {});
MPSShape* shape_of(const Dims& dims);                  // rank 0 as (1)
MPSShape* shape_of(const TensorType& type);
NSArray<NSNumber*>* numbers(const Ints& values);       // as they are
Dims dims_of(MPSShape* shape);                         // -1 where unknown; nothing of nil
std::string to_string(MPSDataType type);

// Metal's frameworks end the process, or compute something else, where an array has a dimension above 2^31 - 1, 2^31
// elements or more, or more than 2^32 bytes: UnsupportedError before they see it (pytorch/pytorch#84039, #143859,
// #188756).
void require_size(const Dims& dims, size_t element_bytes, const std::string& where = {});
void require_size(MPSGraphTensor* tensor, const Dims& dims);       // of another shape, in its element type
void require_size_of(MPSGraphTensor* a, MPSGraphTensor* b);        // of what two operands broadcast to

// All elements, row-major. The bytes live as long as the NSData.
NSData* bytes_of(const ConstantPtr& value);

}  // namespace mpsgraph::metal
