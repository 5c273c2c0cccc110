// Rule: a function that inspects one operation of a program and creates its replacement.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "compiler/rewrite.h"
#include "core/definition.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {

// Thrown by Site when a rule starts to create operations before the Rewriter has copied anything. The exception reports
// that the rule applies, so the program has to be copied.
struct Applies {};

// The operation that a rule inspects: its operands in the new graph, and helpers to create its replacement. Until the
// Rewriter has copied an operation, the operands are tensors of the source graph and may only be inspected.
class Site {
 public:
  Rewriter& rewriter;
  const Operation& source;
  std::vector<Tensor*> in;

  Site(Rewriter& rewriter, const Operation& source) : rewriter(rewriter), source(source) {
    in.reserve(source.inputs.size());
    for (const Tensor* input : source.inputs) in.push_back(const_cast<Tensor*>(rewriter.seen(input)));
  }

  const TensorType& type() const { return source.output()->type; }
  const Dims& dims() const { return type().shape.dims(); }
  const Attributes& attributes() const { return source.attributes; }
  bool real() const { return is_float(type().dtype); }

  Builder b() const { return Builder(made().graph()); }
  Tensor* make(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}) const {
    return made().create(source, kind, std::move(inputs), std::move(attributes))->output();
  }
  // The tensor x, broadcast to the shape of the operation's result.
  Tensor* fit(Tensor* x) { return x->type == type() ? x : make("broadcast_to", {x, b().ints(dims())}); }
  Tensor* filled(double value) const {
    return made().constant(source, ConstantData::splat(type().dtype, dims(), value));
  }

 private:
  Rewriter& made() const {
    if (rewriter.is_untouched()) throw Applies();
    return rewriter;
  }
};

using Rule = Tensor* (*)(Site&);  // returns null if the rule does not apply

// If `x` is the result of an operation of this kind, that operation's first operand; otherwise null.
inline Tensor* operand_of(const Tensor* x, Kind kind) {
  return x->operation->is(kind) ? x->operation->input(0) : nullptr;
}

// The permutation of a transpose, with axes counted from the front.
inline Ints permutation_of(const Operation& transpose) {
  Ints permutation = transpose.attributes.integers("permutation");
  const int rank = static_cast<int>(permutation.size());
  for (int64_t& axis : permutation) axis = ops::wrap_axis(axis, rank);
  return permutation;
}

}  // namespace mpsgraph::compiler
