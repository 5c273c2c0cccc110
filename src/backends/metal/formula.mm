// Implements each formula operator and function with the corresponding MPSGraph operation.
#include "backends/metal/formula.h"

namespace mpsgraph::metal {

Term Term::constant(double value) const {
  return with([graph() constantWithScalar:value shape:@[ @1 ] dataType:tensor_.dataType]);
}

Term apply(const Term& x, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*)) {
  return x.with(method(x.graph(), x.tensor()));
}
Term apply(const Term& a, const Term& b, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*, MPSGraphTensor*)) {
  require_size_of(a.tensor(), b.tensor());
  return a.with(method(a.graph(), a.tensor(), b.tensor()));
}

#define UNARY(function, method)                                                                        \
  Term function(const Term& x) {                                                                       \
    return apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g method##WithTensor:t name:nil]; }); \
  }
#define BINARY(function, method)                                               \
  Term function(const Term& a, const Term& b) {                                \
    return apply(a, b, [](MPSGraph* g, MPSGraphTensor* x, MPSGraphTensor* y) { \
      return [g method##WithPrimaryTensor:x secondaryTensor:y name:nil];       \
    });                                                                        \
  }

BINARY(operator+, addition)
BINARY(operator-, subtraction)
BINARY(operator*, multiplication)
BINARY(operator/, division)
BINARY(operator<, lessThan)
BINARY(operator<=, lessThanOrEqualTo)
BINARY(operator>, greaterThan)
BINARY(operator>=, greaterThanOrEqualTo)
BINARY(operator==, equal)
BINARY(operator!=, notEqual)
BINARY(both, logicalAND)
BINARY(either, logicalOR)
BINARY(differ, logicalXOR)
BINARY(quotient_or_zero, divisionNoNaN)
UNARY(operator-, negative)
UNARY(operator!, not)
UNARY(absolute, absolute)
UNARY(square, square)
UNARY(square_root, squareRoot)
UNARY(exponent, exponent)
UNARY(logarithm, logarithm)
UNARY(truncate, truncate)
UNARY(is_nan, isNaN)

#undef UNARY
#undef BINARY

Term select(const Term& predicate, const Term& when_true, const Term& when_false) {
  require_size_of(predicate.tensor(), when_true.tensor());
  require_size_of(when_true.tensor(), when_false.tensor());
  return when_true.with([predicate.graph() selectWithPredicateTensor:predicate.tensor()
                                                 truePredicateTensor:when_true.tensor()
                                                falsePredicateTensor:when_false.tensor()
                                                                name:nil]);
}

Term sum(const Term& x, const Ints& axes) {
  return x.with([x.graph() reductionSumWithTensor:x.tensor() axes:numbers(axes) name:nil]);
}

Term wide(const Lowering& l, const Term& x) {
  const bool half = x.tensor().dataType != MPSDataTypeFloat32 && is_half(l.result_type().dtype);
  return half ? x.cast(DType::float32) : x;
}

Term narrow(const Lowering& l, const Term& x) {
  return is_half(l.result_type().dtype) ? x.cast(l.result_type().dtype) : x;
}

}  // namespace mpsgraph::metal
