// What the element-wise methods of the mock share: broadcasting, and the dtypes they accept.
#pragma once

#include "graph/graph.h"
#include "metal/mock_metal.h"

namespace mock {

// The classes of dtypes that Apple's documentation names or implies for a method. Complex numbers are in none of them,
// because it is not documented which methods accept them, except for those in arithmetic_complex.mm.
enum class Takes { numbers, floats, integers, booleans };

void require(NSString* kind, const Value& value, Takes wanted);
void require_same_type(NSString* kind, const Values& values, size_t from = 0);

// Add an operation with one result per element: `apply(result, i, operands)` sets it, and validates dtypes when i is 0.
// Shapes broadcast as in numpy.
template <class Apply>
MPSGraphTensor* add_elementwise(MPSGraph* graph, NSString* kind, NSString* name,
                                const std::vector<MPSGraphTensor*>& inputs, Apply apply,
                                MPSDataType result_type = MPSDataTypeInvalid) {
  return add_one(graph, kind, name, inputs, [=](const Values& in) {
    Dims dims = in[0].dims;
    for (const Value& value : in) dims = broadcast_dims(dims, value.dims);
    Values operands;
    for (const Value& value : in) operands.push_back(value.broadcast(dims));
    Value result(result_type == MPSDataTypeInvalid ? in.back().type : result_type, dims);
    for (int64_t i = 0, count = result.count(); i < count; ++i) apply(result, i, operands);
    return result;
  });
}

// Add an element-wise function of floats.
MPSGraphTensor* add_function(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                             double (*function)(double));

}  // namespace mock
