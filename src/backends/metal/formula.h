// Formulas over MPSGraph's tensors, for what is composed: operators and functions of element-wise operations.
//
// A number means a constant of its operand's element type. Comparisons give bool. Only operations whose results
// Apple states for the operands at hand are used; where NaN or equal operands need care, the formula takes it.
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
  Term constant(double value) const;  // shape (1), of this element type
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
Term operator-(const Term& x);  // of floats

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

Term operator!(const Term& x);  // of bool
Term both(const Term& a, const Term& b);
Term either(const Term& a, const Term& b);
Term differ(const Term& a, const Term& b);  // of bool
Term select(const Term& predicate, const Term& when_true, const Term& when_false);
inline Term select(const Term& predicate, double when_true, const Term& when_false) {
  return select(predicate, when_false.constant(when_true), when_false);
}
inline Term select(const Term& predicate, const Term& when_true, double when_false) {
  return select(predicate, when_true, when_true.constant(when_false));
}

// One method of MPSGraph: apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g sinWithTensor:t name:nil]; }).
Term apply(const Term& x, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*));
Term apply(const Term& a, const Term& b, MPSGraphTensor* (*method)(MPSGraph*, MPSGraphTensor*, MPSGraphTensor*));
Term absolute(const Term& x);  // of floats
Term square(const Term& x);
Term square_root(const Term& x);
Term exponent(const Term& x);
Term logarithm(const Term& x);
Term truncate(const Term& x);
Term is_nan(const Term& x);
Term quotient_or_zero(const Term& a, const Term& b);  // of floats: 0 where b is
Term sum(const Term& x, const Ints& axes);  // these stay as 1

inline Term input(const Lowering& l, size_t i = 0) { return Term::input(l, i); }
// Halves in single precision, the others as they are: for sums, of which Apple does not say what they are kept in.
Term wide(const Lowering& l, const Term& x);
inline Term wide_input(const Lowering& l, size_t i = 0) { return wide(l, Term::input(l, i)); }
// In the result's element type again.
Term narrow(const Lowering& l, const Term& x);

}  // namespace mpsgraph::metal
