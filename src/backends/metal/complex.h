// Complex numbers as pairs of real tensors: MPSGraph makes and takes them apart since macOS 14.
#pragma once

#include "backends/metal/formula.h"

namespace mpsgraph::metal {

struct Parts {
  Term re, im;
};

Parts parts_of(const Lowering& l, MPSGraphTensor* tensor);  // of real tensors with 0 beside them
MPSGraphTensor* complex_tensor(const Lowering& l, const Parts& parts);

Parts select(const Term& predicate, const Parts& when_true, const Parts& when_false);

// Operations of arithmetic.mm on complex operands; kinds that have none are not called.
GraphTensors lower_complex(Lowering& l);

}  // namespace mpsgraph::metal
