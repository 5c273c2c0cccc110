// Compiler pass finite, for programs compiled with check_finite: checks every operation that returns floats. The first
// operation that produces a NaN or an infinity ends the run with an error that contains the operation's name and the
// source line where it was built.
//
//   %y = division(%a, %b)   ->   %y = division(%a, %b)
//                                check_indices(not(finite(%y) or not finite(%a, %b))) {message="[division] 'y' ..."}
// An operation produces a NaN if its result has one and no operand does; it produces an infinity if its result has one
// and all operands are finite. Therefore -infinity in a mask is not an error, but a NaN computed from that mask is. The
// checked operations are those that the user built: composites have not been expanded, and nothing has been fused.
// Reads of variables after an assign in the same run are replaced with the assigned value, so that a check after an
// assign does not depend on the assign.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "compiler/passes.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

enum class Asked : uint8_t { finite, number };  // `finite` excludes NaN and infinity, `number` only NaN

bool holds(const ConstantData& value, Asked asked) {
  const int64_t count = value.is_splat() ? 1 : value.elements();
  for (int64_t i = 0; i < count; ++i)
    for (const double part : {value.scalar(i), value.imaginary(i)})
      if (asked == Asked::finite ? !std::isfinite(part) : std::isnan(part)) return false;
  return true;
}

bool is_of_interest(const Tensor& tensor) {
  return is_inexact(tensor.dtype()) && tensor.type.history == 0 && tensor.shape().elements() > 0 &&
         !tensor.operation->is("undefined");
}

class Finite {
 public:
  explicit Finite(const Program& program) {
    for (size_t i = 0; i < program.feeds.size(); ++i)
      if (i < program.computed.size() && program.computed[i]) computed_.push_back(program.feeds[i]->operation);
  }

  Rewriter::Replacement visit(Rewriter& r, const Operation& source) {
    const bool at_root = !r.graph().current_block().parent;
    if (at_root && source.is("read"))
      if (const auto known = assigned_.find(r.now(source.input(0))); known != assigned_.end())
        return std::vector<Tensor*>{known->second};
    const Operation& copy = *r.clone(source);
    if (at_root && copy.is("assign")) assigned_[copy.input(0)] = copy.input(1);
    forget_assigned(copy);
    if (is_to_blame(source)) check(r.graph(), copy);
    return results_of(copy);
  }

 private:
  // Whether an operation can introduce a NaN or an infinity. Control flow cannot, because it only passes on values that
  // its blocks produce. Values that a loop saves were checked when they were computed.
  bool is_to_blame(const Operation& operation) const {
    return operation.blocks.empty() && !operation.is({"constant", "variable", "undefined"}) &&
           !operation.kind().name().starts_with("history_") &&
           std::ranges::find(computed_, &operation) == computed_.end();
  }

  void forget_assigned(const Operation& operation) {
    for (const auto& block : operation.blocks)
      for (const auto& inner : block->operations) {
        if (inner->is("assign")) assigned_.erase(inner->input(0));
        forget_assigned(*inner);
      }
  }

  // Returns a scalar bool that is true if the condition holds for all elements; null if the condition is known to hold.
  Tensor* holds(Graph& graph, Tensor* tensor, Asked asked) {
    if (!is_of_interest(*tensor)) return nullptr;
    for (const Block* block = &graph.current_block(); block; block = block->parent)
      if (const auto known = known_.find({tensor, block, asked}); known != known_.end()) return known->second;
    Tensor*& found = known_[{tensor, &graph.current_block(), asked}];
    if (const ConstantPtr* value = constant_of(tensor); value && compiler::holds(**value, asked))
      return found = nullptr;
    Builder b(graph);
    const auto all = [&](Tensor* part) {
      Tensor* each = asked == Asked::finite ? b.unary("is_finite", part) : b.unary("not", b.unary("is_nan", part));
      Tensor* flat = b.reshape(each, Ints{tensor->shape().elements()});
      return b.reshape(graph.add("reduction_and", {flat}, {{"axes", Ints{0}}}), Ints{});
    };
    if (!is_complex(tensor->dtype())) return found = all(tensor);
    Tensor* imaginary = all(b.unary("imaginary_part", tensor));
    return found = b.binary("logical_and", all(b.unary("real_part", tensor)), imaginary);
  }

  Tensor* all_hold(Graph& graph, const std::vector<Tensor*>& tensors, Asked asked) {
    Tensor* all = nullptr;
    for (Tensor* tensor : tensors)
      if (Tensor* one = holds(graph, tensor, asked)) all = all ? Builder(graph).binary("logical_and", all, one) : one;
    return all;
  }

  // Returns a scalar bool that is true unless the operation introduced a NaN or an infinity; null if it has no float
  // results.
  Tensor* blameless(Graph& graph, const Operation& operation, const std::vector<Tensor*>& results, Asked asked) {
    Builder b(graph);
    Tensor* after = all_hold(graph, results, asked);
    Tensor* before = operation.is("read") ? nullptr : all_hold(graph, operation.inputs, asked);
    return after && before ? b.binary("logical_or", after, b.unary("not", before)) : after;
  }

  void check(Graph& graph, const Operation& operation) {
    const std::vector<Tensor*> results = results_of(operation);
    Tensor* finite = blameless(graph, operation, results, Asked::finite);
    if (!finite) return;
    Tensor* number = blameless(graph, operation, results, Asked::number);
    const bool fed = operation.is("placeholder"), read = operation.is("read");
    check_condition(graph, Builder(graph).binary("logical_and", finite, number), "finite",
                    cat("[", operation.kind(), "] '", read ? operation.input(0)->operation->name : operation.name, "' ",
                        fed    ? "was fed"
                        : read ? "holds"
                               : "produced",
                        " a NaN or an infinity, the first in this run"));
  }

  std::vector<const Operation*> computed_;  // feeds computed by preceding programs, which have already checked them
  std::map<const Tensor*, Tensor*> assigned_;  // maps each variable to its assigned value; only for the root block
  std::map<std::tuple<const Tensor*, const Block*, Asked>, Tensor*> known_;
};

}  // namespace

void finite(Program& program) {
  Finite pass(program);
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return pass.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
