// Reverse-mode differentiation: selects the operations between the requested tensors and the differentiated tensor,
// orders them, and sums their gradients.
//
// An operation's id is always greater than the ids of the operations that produce its operands, even across blocks.
// Visiting operations by descending id is therefore a valid order, and no recursion over the graph is needed. Each
// operation's derivative is defined next to the operation.
//
// When the walk reaches operations that are marked as recomputed, it creates them again, with operands that depend on
// the incoming gradients, and differentiates the copies. The rules of derivatives then read the copies' results, so the
// results of the original operations are not kept.
#include "mpsgraph/core/gradients.h"

#include "core/block_gradients.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/definition.h"
#include "core/recomputation.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph {
namespace {

using Within = std::function<bool(const Operation&)>;

class ReverseWalk {
 public:
  // Ranges of recomputed operations are only found from the id `recomputed_from` on.
  ReverseWalk(const Seeds& seeds, const std::vector<Tensor*>& with_respect_to, Within within,
              int64_t recomputed_from = 0)
      : with_respect_to_(with_respect_to), within_(std::move(within)), recomputed_(recomputed_from) {
    for (const auto& seed : seeds) collect_from(seed.first->operation);
    std::sort(order_.begin(), order_.end(), [](const Operation* a, const Operation* b) { return a->id < b->id; });
    for (Tensor* tensor : with_respect_to_) {
      if (is_inexact(tensor->dtype())) active_.insert(tensor);
    }
    for (Operation* operation : order_) mark(*operation);
    for (const auto& [tensor, gradient] : seeds) accumulate(tensor, gradient);
  }

  std::vector<Tensor*> run() {
    for (auto operation = order_.rbegin(); operation != order_.rend();) {
      const RecomputedRange* range = carrying_.contains(*operation) ? recomputed_.containing(**operation) : nullptr;
      if (range && can_recompute(**operation)) {
        operation = differentiate_recomputed(operation, *range);
        continue;
      }
      if (carrying_.contains(*operation)) differentiate(**operation);
      ++operation;
    }
    std::vector<Tensor*> result;
    for (Tensor* tensor : with_respect_to_) result.push_back(gradient_of(tensor));
    return result;
  }

 private:
  void collect_from(Operation* last) {
    std::vector<Operation*> stack = {last};
    while (!stack.empty()) {
      Operation* operation = stack.back();
      stack.pop_back();
      if (!within_(*operation) || !reached_.insert(operation).second) continue;
      order_.push_back(operation);
      for (Tensor* input : operation->inputs) stack.push_back(input->operation);
      if (operation->blocks.empty()) continue;
      for (Tensor* capture : captures_[operation] = operation->captures()) stack.push_back(capture->operation);
    }
  }

  bool is_active(Tensor* tensor) const { return active_.contains(tensor); }

  std::vector<Tensor*> active_captures(const Operation& operation) const {
    std::vector<Tensor*> active;
    const auto found = captures_.find(&operation);
    if (found == captures_.end()) return active;
    std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(active),
                 [&](Tensor* t) { return is_active(t); });
    return active;
  }

  // Marks tensors as active if they depend on a requested tensor through a chain of floating-point or complex values.
  void mark(Operation& operation) {
    if (operation.definition->gradient_is_zero) return;
    const bool reached =
        std::any_of(operation.inputs.begin(), operation.inputs.end(), [&](Tensor* t) { return is_active(t); }) ||
        !active_captures(operation).empty();
    if (!reached) return;
    carrying_.insert(&operation);
    for (const auto& output : operation.outputs) {
      if (is_inexact(output->dtype())) active_.insert(output.get());
    }
  }

  // Differentiates copies of the operations of a range, from the given operation on, and returns the position after
  // them. The part ends before an operation that cannot run twice and through which gradients flow. Reads of variables
  // are not repeated, because assignments may have changed the variables.
  using Position = std::vector<Operation*>::reverse_iterator;
  Position differentiate_recomputed(Position operation, const RecomputedRange& range) {
    std::vector<Operation*> part, reads;  // in descending order
    int64_t from = range.first;
    for (; operation != order_.rend() && (*operation)->id >= range.first; ++operation) {
      if ((*operation)->parent != range.block) continue;
      if (can_recompute(**operation)) {
        part.push_back(*operation);
      } else if ((*operation)->is("read")) {
        reads.push_back(*operation);
      } else if (carrying_.contains(*operation)) {
        from = (*operation)->id;
        break;
      }
    }
    Seeds seeds;
    std::unordered_set<const Operation*> needed;
    std::vector<Operation*> again;
    for (Operation* candidate : part) {
      for (const auto& output : candidate->outputs) {
        if (Tensor* gradient = gradient_of(output.get())) {
          seeds.emplace_back(output.get(), gradient);
          needed.insert(candidate);
        }
      }
      if (!needed.contains(candidate)) continue;
      again.push_back(candidate);
      for (const Tensor* operand : operands_of(*candidate)) needed.insert(operand->operation);
    }
    if (!again.empty()) differentiate_copies(with_nested_ranges(std::move(again), range, from), seeds);
    for (Operation* read : reads)
      if (carrying_.contains(read)) differentiate(*read);
    return operation;
  }

  static std::vector<Tensor*> operands_of(const Operation& operation) {
    std::vector<Tensor*> operands = operation.inputs;
    if (operation.blocks.empty()) return operands;
    const std::vector<Tensor*> captures = operation.captures();
    operands.insert(operands.end(), captures.begin(), captures.end());
    return operands;
  }

  void differentiate_copies(const std::vector<Operation*>& operations, const Seeds& seeds) {
    Graph& graph = operations.front()->graph();
    std::vector<Tensor*> incoming;
    for (const auto& [tensor, gradient] : seeds) incoming.push_back(graph.resolve(gradient));
    std::unordered_set<const Operation*> inside(operations.begin(), operations.end());
    Replacements now;
    std::vector<Tensor*> sources, wanted, outside;  // outside: the operands of the operations, in order of first use
    for (const Operation* operation : operations) {
      for (Tensor* operand : operands_of(*operation))
        if (!inside.contains(operand->operation) && now.emplace(operand, operand).second) outside.push_back(operand);
    }
    for (Tensor* operand : outside) {
      Tensor*& value = now[operand];
      value = graph.resolve(operand);
      // Constants and weights are in memory in any case. Passes can only fold or prepare them if no barrier hides them.
      const bool is_weight = operand->operation->is("read") && is_inexact(operand->dtype());
      if (!is_weight && !operand->operation->is("constant") && !operand->type.history) {
        std::vector<Tensor*> inputs = incoming;
        inputs.insert(inputs.begin(), value);
        value = graph.add("optimization_barrier", std::move(inputs));
      }
      if (is_active(operand)) sources.push_back(operand), wanted.push_back(value);
    }
    const size_t count = wanted.size();
    const int64_t first = graph.operation_count();
    for (const Operation* operation : operations) create_again(*operation, now);
    const int64_t end = graph.operation_count();
    for (Tensor* tensor : with_respect_to_) {
      if (inside.contains(tensor->operation)) sources.push_back(tensor), wanted.push_back(now.at(tensor));
    }
    Seeds again;
    for (const auto& [tensor, gradient] : seeds) again.emplace_back(now.at(tensor), gradient);
    const Within within = [first, end](const Operation& o) { return o.id >= first && o.id < end; };
    ReverseWalk walk(again, wanted, within, first);
    // The walk adds to the gradients known so far, so that the order of all additions is the same as without copies.
    for (size_t i = 0; i < count; ++i)
      if (Tensor* known = gradient_of(sources[i])) walk.gradients_[wanted[i]] = known;
    const std::vector<Tensor*> gradients = walk.run();
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i]) gradients_[sources[i]] = gradients[i];
  }

  void differentiate(Operation& operation) {
    std::vector<Tensor*> incoming;
    for (const auto& output : operation.outputs) incoming.push_back(gradient_of(output.get()));
    if (std::all_of(incoming.begin(), incoming.end(), [](Tensor* t) { return !t; })) return;
    const OperationDefinition& definition = *operation.definition;
    const bool by_rule = definition.gradient && !(definition.decompose && requests_between(operation));
    if (by_rule && differentiates_wide(operation)) {
      differentiate_again(operation, incoming, [&](Builder& b, const std::vector<Tensor*>& inputs) {
        const Operation* wide = operation.graph().create(operation.kind(), widened(b, inputs), operation.attributes);
        std::vector<Tensor*> results;
        for (const auto& output : wide->outputs) results.push_back(output.get());
        return narrowed(b, results, operation);
      });
    } else if (by_rule) {
      std::vector<bool> needed;
      for (Tensor* input : operation.inputs) needed.push_back(is_active(input));
      GradientContext context(operation, std::move(incoming), std::move(needed), active_captures(operation));
      definition.gradient(context);
      for (size_t i = 0; i < operation.inputs.size(); ++i) {
        if (context.needs(i) && context.result[i])
          accumulate_checked(operation, operation.inputs[i], context.result[i]);
      }
      for (size_t i = 0; i < context.captures.size(); ++i) {
        if (context.capture_result[i]) accumulate_checked(operation, context.captures[i], context.capture_result[i]);
      }
    } else if (definition.decompose) {
      differentiate_again(operation, incoming, [&](Builder& b, const std::vector<Tensor*>& inputs) {
        return decomposed(b, operation, inputs);
      });
    } else {
      throw GraphError(cat("[", definition.name, "] '", operation.name, "' has no gradient, but lies on a path from a ",
                           "requested tensor to the tensor being differentiated", operation.where()));
    }
  }

  // Whether an operand of this operation is a requested tensor and is itself computed from another operand of this
  // operation. The derivative rule of a composite may combine two such operands, as the rule of normalization does with
  // the source and the mean. The gradient with respect to the requested tensor would then be lost.
  bool requests_between(const Operation& operation) const {
    return std::any_of(operation.inputs.begin(), operation.inputs.end(), [&](const Tensor* operand) {
      if (std::find(with_respect_to_.begin(), with_respect_to_.end(), operand) == with_respect_to_.end()) return false;
      return std::any_of(operation.inputs.begin(), operation.inputs.end(), [&](const Tensor* other) {
        const auto& sources = operand->operation->inputs;
        return std::find(sources.begin(), sources.end(), other) != sources.end();
      });
    });
  }

  using Make = std::function<std::vector<Tensor*>(Builder&, const std::vector<Tensor*>& inputs)>;

  // Differentiates an operation through a replacement, which `make` builds from simpler operations or in float32.
  void differentiate_again(Operation& operation, const std::vector<Tensor*>& incoming, const Make& make) {
    Graph& graph = operation.graph();
    const OperationDefinition& definition = *operation.definition;
    if (!definition.tensor_attributes.empty() && operation.inputs.size() > static_cast<size_t>(definition.min_inputs)) {
      throw UnsupportedError(cat("[", definition.name, "] '", operation.name, "' can only be differentiated if ",
                                 definition.tensor_attributes.front(), " has a known value", operation.where()));
    }
    std::vector<Tensor*> inputs;
    for (Tensor* input : operation.inputs) inputs.push_back(graph.resolve(input));
    const int64_t first = graph.operation_count();
    Builder builder(graph);
    const std::vector<Tensor*> results = make(builder, inputs);
    Seeds seeds;
    for (size_t i = 0; i < results.size(); ++i) {
      if (incoming[i]) seeds.emplace_back(results[i], incoming[i]);
    }
    std::vector<Tensor*> wanted, sources;
    std::unordered_set<Tensor*> seen;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_active(operation.inputs[i]) || !seen.insert(operation.inputs[i]).second) continue;
      sources.push_back(operation.inputs[i]);
      wanted.push_back(inputs[i]);
    }
    const int64_t end = graph.operation_count();
    const Within inside = [first, end](const Operation& o) { return o.id >= first && o.id < end; };
    const std::vector<Tensor*> gradients = ReverseWalk(seeds, wanted, inside, first).run();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i]) accumulate_checked(operation, sources[i], gradients[i]);
    }
  }

  Tensor* gradient_of(Tensor* tensor) const {
    const auto found = gradients_.find(tensor);
    return found == gradients_.end() ? nullptr : found->second;
  }

  void accumulate(Tensor* tensor, Tensor* gradient) {
    if (!is_active(tensor)) return;
    Tensor*& sum = gradients_[tensor];
    sum = sum ? Builder(tensor->graph()).add(sum, gradient) : gradient;
  }

  void accumulate_checked(const Operation& operation, Tensor* tensor, Tensor* gradient) {
    if (gradient->dtype() != tensor->dtype() || !compatible(gradient->shape(), tensor->shape()) ||
        gradient->type.history != tensor->type.history) {
      throw GraphError(cat("[", operation.kind(), "] the gradient of '", operation.name, "' with respect to '",
                           tensor->name(), "' must have type ", tensor->type, ", got ", gradient->type,
                           operation.where()));
    }
    accumulate(tensor, gradient);
  }

  const std::vector<Tensor*> with_respect_to_;
  const Within within_;
  RecomputedRanges recomputed_;
  std::vector<Operation*> order_;  // operations in order of creation
  std::unordered_set<const Operation*> reached_, carrying_;
  std::unordered_map<const Operation*, std::vector<Tensor*>> captures_;
  std::unordered_set<const Tensor*> active_;
  std::unordered_map<const Tensor*, Tensor*> gradients_;
};

void check_reachable(const Graph& graph, const Block& current, const Tensor* tensor, std::string_view role) {
  if (!tensor) throw GraphError(cat("[gradients] ", role, " is missing"));
  if (&tensor->graph() != &graph)
    throw GraphError(cat("[gradients] ", role, " '", tensor->name(), "' belongs to another graph"));
  if (!tensor->operation->parent->encloses(&current)) {
    throw GraphError(cat("[gradients] ", role, " '", tensor->name(), "' is defined in a block of control flow and ",
                         "exists only there; return it as a result of that block"));
  }
}

}  // namespace

std::vector<Tensor*> block_gradients(const Block& block, const Seeds& seeds,
                                     const std::vector<Tensor*>& with_respect_to) {
  return ReverseWalk(seeds, with_respect_to, [&](const Operation& o) { return o.parent == &block; }).run();
}

std::unordered_set<const Tensor*> dependents(const Block& block, const std::vector<Tensor*>& sources) {
  std::unordered_set<const Tensor*> reached(sources.begin(), sources.end());
  const auto is_reached = [&](const Tensor* tensor) { return reached.contains(tensor); };
  for (const auto& operation : block.operations) {
    if (operation->definition->gradient_is_zero) continue;
    const std::vector<Tensor*> captures = operation->blocks.empty() ? std::vector<Tensor*>() : operation->captures();
    if (std::none_of(operation->inputs.begin(), operation->inputs.end(), is_reached) &&
        std::none_of(captures.begin(), captures.end(), is_reached))
      continue;
    for (const auto& output : operation->outputs) {
      if (is_inexact(output->dtype())) reached.insert(output.get());
    }
  }
  return reached;
}

std::vector<Tensor*> gradients(Tensor* of, const std::vector<Tensor*>& with_respect_to, Tensor* start,
                               Unconnected unconnected) {
  if (!of) throw GraphError("[gradients] the tensor to differentiate is missing");
  Graph& graph = of->graph();
  check_reachable(graph, graph.current_block(), of, "the tensor to differentiate");
  for (const Tensor* tensor : with_respect_to)
    check_reachable(graph, graph.current_block(), tensor, "the requested tensor");
  if (!is_inexact(of->dtype())) {
    throw DTypeError(cat("[gradients] the tensor to differentiate must be floating-point or complex, got '", of->name(),
                         "' of ", of->dtype(), "; cast it to float32 first"));
  }
  if (is_complex(of->dtype()) && !start) {
    throw DTypeError(cat("[gradients] '", of->name(), "' is complex (", of->dtype(),
                         "), so it needs a starting gradient: pass `start`, or differentiate its `real_part` or "
                         "`absolute` instead"));
  }
  if (start) {
    check_reachable(graph, graph.current_block(), start, "the starting gradient");
    if (start->dtype() != of->dtype()) {
      throw DTypeError(cat("[gradients] the starting gradient must have the dtype ", of->dtype(), " of '", of->name(),
                           "', got ", start->dtype(), "; cast it to ", of->dtype(), " first"));
    }
    if (!compatible(start->shape(), of->shape())) {
      throw ShapeError(cat("[gradients] the starting gradient must have the type ", of->type, " of '", of->name(),
                           "', got ", start->type));
    }
  }
  Builder builder(graph);
  Tensor* seed = start ? start : builder.ones_like(of);
  std::vector<Tensor*> result = ReverseWalk({{of, seed}}, with_respect_to, [](const Operation&) { return true; }).run();
  for (size_t i = 0; i < result.size(); ++i) {
    Tensor* wanted = with_respect_to[i];
    if (!result[i] && unconnected == Unconnected::error) {
      throw GraphError(cat("[gradients] '", of->name(), "' does not depend on '", wanted->name(),
                           "' through differentiable operations; request zeros if that is intended",
                           wanted->operation->where()));
    }
    if (!result[i]) {
      result[i] = builder.zeros_like(wanted);
    } else if (result[i]->shape() != wanted->shape()) {
      // At run time, the gradient already has the shape of the tensor. reshape_like() also gives it the tensor's static
      // shape.
      result[i] = builder.reshape_like(result[i], wanted);
    }
  }
  return result;
}

}  // namespace mpsgraph
