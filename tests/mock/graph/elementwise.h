// What the mock's element-wise methods are made of: broadcasting, and the element types that they take.
#pragma once

#include "graph/graph.h"
#include "metal/mock_metal.h"

namespace mock {

// The classes of element types that Apple's documentation names for a method, or that its words make sense for. Complex
// numbers are in none: which methods take them is not documented, but for those in arithmetic_complex.mm.
enum class Takes { numbers, floats, integers, booleans };

void require(NSString* kind, const Value& value, Takes wanted);
void require_same_type(NSString* kind, const Values& values, size_t from = 0);

// One result per element; `apply(result, i, operands)` sets it, and looks at element types when i is 0. Shapes are
// broadcast as in numpy.
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

// A function of floats.
MPSGraphTensor* add_function(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                             double (*function)(double));

}  // namespace mock
