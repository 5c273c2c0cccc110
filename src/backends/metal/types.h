// Conversion to Apple's types: dtypes, shapes, constants.
//
// In this backend, MPSGraph's tensors have at least one dimension: a tensor of rank 0 is lowered to shape (1).
#pragma once

#include "backends/metal/frameworks.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/types.h"

namespace mpsgraph::metal {

// Return Apple's dtype. Throws UnsupportedError for float64 and complex128, and for dtypes that require a newer system.
// `where` is appended to the message.
MPSDataType data_type(DType dtype, const std::string& where = {});
MPSShape* shape_of(const Dims& dims);                  // An empty shape (rank 0) becomes (1).
MPSShape* shape_of(const TensorType& type);
NSArray<NSNumber*>* numbers(const Ints& values);       // the values unchanged, as an NSArray
Dims dims_of(MPSShape* shape);  // Unknown sizes become -1, and a nil shape becomes an empty one.
std::string to_string(MPSDataType type);

// Throw UnsupportedError for arrays with a dimension above 2^31 - 1, 2^31 or more elements, or more than 2^32 bytes.
// For such arrays, Metal's frameworks abort the process or compute wrong results (pytorch/pytorch#84039, #143859,
// #188756).
void require_size(const Dims& dims, size_t element_bytes, const std::string& where = {});
// checks an array with shape `dims` and the tensor's dtype
void require_size(MPSGraphTensor* tensor, const Dims& dims);
void require_size_of(MPSGraphTensor* a, MPSGraphTensor* b);  // checks the broadcast shape of two operands

// Return all elements in row-major order. The bytes live as long as the NSData.
NSData* bytes_of(const ConstantPtr& value);

}  // namespace mpsgraph::metal
