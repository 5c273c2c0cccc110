// Compiler pass widen: computes half-precision sums, and operations of several steps, in float32 and rounds once.
//
//   %m = mean(%x) : bfloat16                     %w = cast(%x) : float32
//   %v = variance(%x, %m) : bfloat16        ->   %a = mean(%w);  %b = variance(%w, %a);  %c = normalization(%w, %a, %b)
//   %n = normalization(%x, %m, %v) : bfloat16    %n = cast(%c) : bfloat16
//
// core/wide.cpp lists these operations. Statistics are small, so arithmetic on statistics also uses their float32 form:
// nothing is rounded between a sum and its square root, or between a mean and the differences from the mean. %m and %v
// are only rounded for other users. An element-wise operation used only by a sum is computed in float32 as well,
// because rounding each square would change the sum of squares. Comparisons and rounding operations use the
// half-precision values of the original program.
#include <algorithm>
#include <unordered_map>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

// Whether an operation is arithmetic that is computed in float32 if an operand is a statistic, such as a mean or a sum.
bool goes_on(const Operation& operation) {
  return operation.is({"addition",
                       "subtraction",
                       "multiplication",
                       "division",
                       "division_no_nan",
                       "power",
                       "square",
                       "square_root",
                       "reciprocal",
                       "reciprocal_square_root",
                       "reverse_square_root",
                       "negative",
                       "absolute",
                       "exponent",
                       "logarithm",
                       "maximum",
                       "minimum",
                       "maximum_with_nan_propagation",
                       "minimum_with_nan_propagation",
                       "clamp",
                       "select"});
}

bool moves(const Operation& operation) {
  return operation.is({"reshape", "expand_dims", "squeeze", "flatten2d", "broadcast_to", "tile", "transpose"});
}

bool is_sum(const Operation& operation) {
  return operation.is({"reduction_sum", "broadcast_gradient", "mean", "variance"});
}

bool widens(const Operation& operation) {
  return operation.is("cast") && is_half(operation.input(0)->dtype()) && operation.output()->dtype() == DType::float32;
}

// Whether the operation casts a float32 tensor that was broadcast from fewer elements to half precision, as the
// gradients of means do.
bool spreads(const Operation& operation) {
  if (!operation.is("cast") || !is_half(operation.output()->dtype())) return false;
  const Tensor* before = operation.input(0);
  return before->dtype() == DType::float32 && before->operation->is("broadcast_to") &&
         before->operation->input(0)->shape().elements() < before->shape().elements();
}

int64_t size_of_all(const Tensor* tensor) { return tensor->shape().elements(); }

class Widener {
 public:
  explicit Widener(const Program& program) : users_(program) {}

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) {
    if (widens(operation)) return Tensors{wide(r, operation.input(0))};
    if (spreads(operation)) return spread(r, operation);
    if (operation.outputs.empty() || !operation.blocks.empty() || !is_of_halves(operation)) return {};
    if (computes_wide(operation)) return whole(r, operation);
    if (!is_half(operation.output()->dtype())) return {};
    if (goes_on(operation) && largest_statistic(r, operation) > 0) return further(r, operation);
    if (moves(operation) && statistics_.contains(r.now(operation.input(0)))) return moved(r, operation);
    return {};
  }

 private:
  using Tensors = std::vector<Tensor*>;

  // A float32 value of which a half-precision tensor is a rounded copy, and its number of elements before any
  // broadcast.
  struct Statistic {
    Tensor* value;
    int64_t size;
  };

  const Statistic* statistic(const Tensor* now) const {
    const auto found = statistics_.find(now);
    if (found != statistics_.end()) return &found->second;
    const auto spread = spread_.find(now);
    return spread == spread_.end() ? nullptr : &spread->second;
  }

  int64_t largest_statistic(Rewriter& r, const Operation& operation) const {
    int64_t most = 0;
    for (const Tensor* input : operation.inputs)
      if (const Statistic* known = statistic(r.now(input))) most = std::max(most, known->size);
    return most;
  }

  // The source tensor in float32. A cast is added only if there is none yet, so all users share it.
  Tensor* wide(Rewriter& r, const Tensor* source) {
    Tensor* now = r.now(source);
    if (const auto found = statistics_.find(now); found != statistics_.end()) return found->second.value;
    if (const auto found = single_.find(now); found != single_.end()) return found->second;
    Tensors& made = casts_[now];
    for (Tensor* one : made)
      if (one->operation->parent->encloses(&r.graph().current_block())) return one;
    return made.emplace_back(Builder(r.graph()).cast(now, DType::float32));
  }

  // The operands in float32. If an element-wise operation is used only by this operation, it is recomputed in float32.
  Tensors operands(Rewriter& r, const Operation& operation, bool of_sum) {
    Tensors result;
    for (const Tensor* input : operation.inputs) {
      const Operation& before = *input->operation;
      if (!is_half(input->dtype()))
        result.push_back(r.now(input));
      else if (of_sum && before.definition->elementwise && !before.is("cast") && is_of_halves(before) &&
               before.parent == operation.parent && users_.only(input) && !statistics_.contains(r.now(input)) &&
               !single_.contains(r.now(input)))
        result.push_back(r.graph().add(before.kind(), operands(r, before, true), before.attributes));
      else
        result.push_back(wide(r, input));
    }
    return result;
  }

  Tensor* narrow(Rewriter& r, const Operation& source, size_t i, Tensor* value) {
    const Attributes to{{"dtype", source.output(i)->dtype()}};
    return i == 0 ? r.create(source, "cast", {value}, to)->output() : r.graph().add("cast", {value}, to);
  }

  // Records the float32 tensor of which a result is a rounded copy. A result with fewer elements than its operands is a
  // statistic. For any other result, the float32 tensor is recorded only if the result has a single user.
  Tensor* known(const Operation& source, size_t i, Tensor* now, Tensor* value, int64_t size, bool is_statistic) {
    if (is_statistic)
      statistics_[now] = {value, size};
    else if (users_.only(source.output(i)))
      single_[now] = value;
    return now;
  }

  Rewriter::Replacement whole(Rewriter& r, const Operation& operation) {
    int64_t largest = 0;
    for (const Tensor* input : operation.inputs) largest = std::max(largest, size_of_all(input));
    const Operation* made =
        r.graph().create(operation.kind(), operands(r, operation, is_sum(operation)), operation.attributes);
    Tensors results;
    for (size_t i = 0; i < made->outputs.size(); ++i) {
      Tensor* now = narrow(r, operation, i, made->output(i));
      const int64_t size = size_of_all(now);
      results.push_back(known(operation, i, now, made->output(i), size, size < largest || largest <= 1));
    }
    return results;
  }

  // The result of arithmetic on statistics is again a statistic if no other operand is larger.
  Rewriter::Replacement further(Rewriter& r, const Operation& operation) {
    const int64_t size = largest_statistic(r, operation);
    bool is_small = true;
    Tensors inputs;
    for (const Tensor* input : operation.inputs) {
      const Statistic* known = statistic(r.now(input));
      is_small = is_small && (known || size_of_all(input) <= size);
      inputs.push_back(known ? known->value : is_half(input->dtype()) ? wide(r, input) : r.now(input));
    }
    Tensor* value = r.graph().add(operation.kind(), inputs, operation.attributes);
    return Tensors{known(operation, 0, narrow(r, operation, 0, value), value, size, is_small)};
  }

  Rewriter::Replacement moved(Rewriter& r, const Operation& operation) {
    Tensors inputs = r.now(operation.inputs);
    const Statistic before = statistics_.at(inputs[0]);
    inputs[0] = before.value;
    Tensor* value = r.graph().add(operation.kind(), inputs, operation.attributes);
    return Tensors{known(operation, 0, narrow(r, operation, 0, value), value, before.size, true)};
  }

  // Handles a cast to half precision whose source is a broadcast: arithmetic that uses the cast is computed from the
  // float32 tensor instead, and all other users keep the cast.
  Rewriter::Replacement spread(Rewriter& r, const Operation& cast) {
    Tensor* now = r.clone(cast)->output();
    spread_[now] = {r.now(cast.input(0)), size_of_all(cast.input(0)->operation->input(0))};
    return Tensors{now};
  }

  Users users_;
  std::unordered_map<const Tensor*, Statistic> statistics_, spread_;  // keyed by tensors of the new program
  std::unordered_map<const Tensor*, Tensor*> single_;
  std::unordered_map<const Tensor*, Tensors> casts_;
};

}  // namespace

void widen(Program& program) {
  const auto concerned = [](const Operation& operation) { return computes_wide(operation) || spreads(operation); };
  if (!any_operation(program, concerned)) return;
  Widener widener(program);
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return widener.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
