// Operators and functions that write composed operations as formulas over MPSGraph's tensors.
//
// A number becomes a constant of its operand's dtype. Comparisons return bool. Formulas use only operations whose
// results Apple documents for the given operands, and handle NaN and equal operands explicitly where needed.
#pragma once

#include "backends/metal/lowering.h"
#include "core/wide.h"

namespace mpsgraph::metal {

class Term {
 public:
  Term(const Lowering& l, MPSGraphTensor* tensor) : lowering_(&l), tensor_(tensor) {}
  static Term input(const Lowering& l, size_t i = 0) { return {l, l.input(i)}; }

  MPSGraphTensor* tensor() const { return tensor_; }
  operator GraphTensors() const { return {tensor_}; }
  MPSGraph* graph() const { return lowering_->graph(); }
  Term with(MPSGraphTensor* tensor) const { return {*lowering_, tensor}; }
  Term constant(double value) const;  // constant of shape (1) with the dtype of this term
  Term cast(DType dtype) const { return with(lowering_->cast(tensor_, dtype)); }
  Term reshape(const Dims& dims) const { return with(lowering_->reshape(tensor_, dims)); }

 private:
  const Lowering* lowering_;
  MPSGraphTensor* tensor_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
inline Term operator+(const Term& a, double b) { return a + a.constant(b); }
inline Term operator-(const Term& a, double b) { return a - a.constant(b); }
inline Term operator*(const Term& a, double b) { return a * a.constant(b); }
inline Term operator/(const Term& a, double b) { return a / a.constant(b); }
inline Term operator-(double a, const Term& b) { return b.constant(a) - b; }
Term operator-(const Term& x);  // for floats only

Term operator<(const Term& a, const Term& b);
Term operator<=(const Term& a, const Term& b);
Term operator>(const Term& a, const Term& b);
Term operator>=(const Term& a, const Term& b);
Term operator==(const Term& a, const Term& b);
Term operator!=(const Term& a, const Term& b);
inline Term operator<(const Term& a, double b) { return a < a.constant(b); }
inline Term operator<=(const Term& a, double b) { return a <= a.constant(b); }
inline Term operator>(const Term& a, double b) { return a > a.constant(b); }
inline Term operator>=(const Term& a, double b) { return a >= a.constant(b); }
inline Term operator==(const Term& a, double b) { return a == a.constant(b); }
inline Term operator!=(const Term& a, double b) { return a != a.constant(b); }

Term operator!(const Term& x);  // for bool only
Term both(const Term& a, const Term& b);
Term either(const Term& a, const Term& b);
Term differ(const Term& a, const Term& b);  // for bool only; true where a and b differ
Term select(const Term& predicate, const Term& when_true, const Term& when_false);
inline Term select(const Term& predicate, double when_true, const Term& when_false) {
  return select(predicate, when_false.constant(when_true), when_false);
}
inline Term select(const Term& predicate, const Term& when_true, double when_false) {
  return select(predicate, when_true, when_true.constant(when_false));
}

// Apply one MPSGraph method: apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g sinWithTensor:t name:nil]; }).
Term apply(const Term& x, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*));
Term apply(const Term& a, const Term& b, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*, MPSGraphTensor*));
Term absolute(const Term& x);  // for floats only
Term square(const Term& x);
Term square_root(const Term& x);
Term exponent(const Term& x);
Term logarithm(const Term& x);
Term truncate(const Term& x);
Term is_nan(const Term& x);
Term quotient_or_zero(const Term& a, const Term& b);  // a / b, but 0 where b is 0; for floats only
// Reduced axes remain with size 1. A sum of many numbers is computed in steps, each with fewer than 2^20 terms.
Term sum(const Term& x, const Ints& axes);
bool is_long_sum(const Term& x, const Ints& axes);

inline Term input(const Lowering& l, size_t i = 0) { return Term::input(l, i); }
// Convert float16 and bfloat16 to float32 and return other dtypes unchanged. Used for sums, because Apple does not
// document their accumulation type.
Term wide(const Lowering& l, const Term& x);
inline Term wide_input(const Lowering& l, size_t i = 0) { return wide(l, Term::input(l, i)); }
// Convert back to the result's dtype.
Term narrow(const Lowering& l, const Term& x);

}  // namespace mpsgraph::metal
