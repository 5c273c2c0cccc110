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

namespace {

// MPSGraph's sums, means, and variances of millions of numbers are wrong now and then (pytorch/pytorch#178497,
// #197235). Whether shorter sums avoid that on a Mac is a question of the self-test's part `repeats`.
constexpr int64_t long_sum = int64_t{1} << 20, block = 1024;

Term short_sum(const Term& x, const Ints& axes) {
  return x.with([x.graph() reductionSumWithTensor:x.tensor() axes:numbers(axes) name:nil]);
}

int64_t count_along(const Dims& dims, const Ints& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= dims[static_cast<size_t>(axis)];
  return count;
}

// The sum along one axis, which may be long: blocks of 1024 elements, then the sums of the blocks.
Term sum_along(const Term& x, int64_t axis) {
  Dims dims = dims_of(x.tensor().shape);
  const auto at = dims.begin() + static_cast<std::ptrdiff_t>(axis);
  const int64_t size = *at, blocks = size / block;
  if (size < long_sum) return short_sum(x, {axis});
  const auto part = [&](int64_t start, int64_t length) {
    return x.with([x.graph() sliceTensor:x.tensor()
                               dimension:static_cast<NSUInteger>(axis)
                                   start:static_cast<NSInteger>(start)
                                  length:static_cast<NSInteger>(length)
                                    name:nil]);
  };
  const bool even = size % block == 0;
  const Dims split{element_count(Dims(dims.begin(), at)), blocks, block, element_count(Dims(at + 1, dims.end()))};
  const Term of_blocks = short_sum((even ? x : part(0, blocks * block)).reshape(split), {2});
  *at = blocks;
  const Term total = sum_along(of_blocks.reshape(dims), axis);
  return even ? total : total + short_sum(part(blocks * block, size % block), {axis});
}

}  // namespace

bool is_long_sum(const Term& x, const Ints& axes) {
  return !axes.empty() && x.tensor().shape.count != 0 && count_along(dims_of(x.tensor().shape), axes) >= long_sum;
}

Term sum(const Term& x, const Ints& axes) {
  if (!is_long_sum(x, axes)) return short_sum(x, axes);
  Ints left = axes, together;
  Term total = x;
  while (!left.empty()) {  // as many axes at once as a short sum allows
    together.assign(1, left.back());
    left.pop_back();
    const Dims dims = dims_of(total.tensor().shape);
    while (!left.empty() && count_along(dims, together) * dims[static_cast<size_t>(left.back())] < long_sum) {
      together.insert(together.begin(), left.back());
      left.pop_back();
    }
    total = together.size() == 1 ? sum_along(total, together[0]) : short_sum(total, together);
  }
  return total;
}

Term wide(const Lowering& l, const Term& x) {
  const bool half = x.tensor().dataType != MPSDataTypeFloat32 && is_half(l.result_type().dtype);
  return half ? x.cast(DType::float32) : x;
}

Term narrow(const Lowering& l, const Term& x) {
  return is_half(l.result_type().dtype) ? x.cast(l.result_type().dtype) : x;
}

}  // namespace mpsgraph::metal
