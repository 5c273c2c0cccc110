// Complex numbers as pairs of real tensors. Since macOS 14, MPSGraph can convert between the two.
#pragma once

#include "backends/metal/formula.h"

namespace mpsgraph::metal {

struct Parts {
  Term re, im;
};

Parts parts_of(const Lowering& l, MPSGraphTensor* tensor);  // the imaginary parts are zero if `tensor` is real
MPSGraphTensor* complex_tensor(const Lowering& l, const Parts& parts);

Parts select(const Term& predicate, const Parts& when_true, const Parts& when_false);

// Lower an operation of arithmetic.mm on complex operands. Called only for operations that support complex operands.
GraphTensors lower_complex(Lowering& l);

}  // namespace mpsgraph::metal
