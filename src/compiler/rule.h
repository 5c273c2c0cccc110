// Rule: a pattern of operations, a condition, and what replaces them.
//
// Matching a rule changes nothing: conditions receive a const Site, which only inspects the program. Operations are
// created once a rule is known to apply.
#pragma once

#include <utility>
#include <vector>

#include "compiler/pattern.h"
#include "compiler/rewrite.h"
#include "core/definition.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {

class Site;

struct Rule {
  using Condition = bool (*)(const Site&);
  using Replacement = Tensor* (*)(Site&);

  Pattern pattern;  // of the operation that is replaced
  Condition condition;
  Replacement replacement;

  Rule(Pattern pattern, Replacement replacement) : Rule(std::move(pattern), nullptr, replacement) {}
  Rule(Pattern pattern, Condition condition, Replacement replacement)
      : pattern(std::move(pattern)), condition(condition), replacement(replacement) {}
};

// The operation to which a rule may apply: its operands in the new graph, the tensors that the rule's pattern has
// captured, and helpers to create the replacement. Until the Rewriter has copied an operation, the operands are tensors
// of the source graph.
class Site {
 public:
  const Operation& source;
  std::vector<Tensor*> in;

  Site(Rewriter& rewriter, const Operation& source) : source(source), rewriter_(rewriter) {
    in.reserve(source.inputs.size());
    for (const Tensor* input : source.inputs) in.push_back(const_cast<Tensor*>(rewriter.seen(input)));
  }

  bool matches(const Rule& rule) {
    for (const bool swapped : {false, true}) {
      if (swapped && !commutes(source)) break;
      captured_ = {};
      if (rule.pattern.matches_inputs(in, swapped, captured_) && (!rule.condition || rule.condition(*this)))
        return true;
    }
    return false;
  }

  Tensor* operator[](Capture name) const { return const_cast<Tensor*>(captured_[name]); }
  const TensorType& type() const { return source.output()->type; }
  const Dims& dims() const { return type().shape.dims(); }
  const Attributes& attributes() const { return source.attributes; }
  bool real() const { return is_float(type().dtype); }

  Builder b() { return Builder(rewriter_.graph()); }
  Tensor* make(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}) {
    return rewriter_.create(source, kind, std::move(inputs), std::move(attributes))->output();
  }
  // The tensor, broadcast to the shape of the operation's result.
  Tensor* fit(Tensor* tensor) {
    return tensor->type == type() ? tensor : make("broadcast_to", {tensor, b().ints(dims())});
  }
  Tensor* filled(double value) { return rewriter_.constant(source, ConstantData::splat(type().dtype, dims(), value)); }

 private:
  Rewriter& rewriter_;
  Captured captured_ = {};
};

// The permutation of a transpose, with axes counted from the front.
inline Ints permutation_of(const Operation& transpose) {
  Ints permutation = transpose.attributes.integers("permutation");
  const int rank = static_cast<int>(permutation.size());
  for (int64_t& axis : permutation) axis = ops::wrap_axis(axis, rank);
  return permutation;
}
inline Ints permutation_of(const Tensor* transposed) { return permutation_of(*transposed->operation); }

// Rules for rows that are looked up in a table, and for the gradients of such lookups (rules_lookups.cpp).
std::vector<Rule> rules_of_lookups();

// The replacement of an operation by the first of all rules that applies; nullopt if none does (rules.cpp).
Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source);

// If the predicate of an `if` is known, copies the chosen block in place of the operation and returns its results.
Rewriter::Replacement taken_branch(Rewriter& rewriter, const Operation& source);

}  // namespace mpsgraph::compiler
