// Infers types again, in place, along the steps of a specialization.
#include "compiler/retyping.h"

#include <algorithm>

#include "compiler/passes.h"
#include "core/definition.h"
#include "core/known_values.h"

namespace mpsgraph::compiler {
namespace {

// The constant of a step after its operands changed; null if it is not known.
ConstantPtr known_again(const Operation& copy) {
  const TensorType& type = copy.output()->type;
  if (!is_inexact(type.dtype))
    if (const auto values = constant_value(copy.output())) return integer_constant(type, *values);
  return computed_from_constants(copy);
}

}  // namespace

ConstantPtr computed_from_constants(const Operation& operation) {
  std::vector<ConstantPtr> operands;
  for (const Tensor* input : operation.inputs) {
    if (!input->operation->is("constant")) return nullptr;
    operands.push_back(input->operation->attributes.data("value"));
  }
  return computed(operation.kind(), operands, operation.attributes);
}

bool Retyping::retype(const std::vector<TensorType>& feeds) {
  std::vector<bool> changed(static_cast<size_t>(trace_.graph->operation_count()));
  const bool all = !valid_;
  valid_ = false;
  for (size_t i = 0; i < feeds.size(); i++) {
    Tensor& feed = *trace_.feeds[i];
    if (feed.type == feeds[i]) continue;
    changed[static_cast<size_t>(feed.operation->id)] = true;
    feed.type = feeds[i];
    feed.operation->attributes.set("type", feeds[i]);
  }
  try {
    for (Step& step : trace_.steps)
      if (!retype(step, all, changed)) return false;
  } catch (const Error&) {  // the feeds are invalid; a complete compilation reports why
    return false;
  }
  const auto has_changed = [&](const Tensor* tensor) { return changed[static_cast<size_t>(tensor->operation->id)]; };
  if (std::ranges::any_of(trace_.deciding, has_changed)) return false;
  return valid_ = true;
}

bool Retyping::retype(Step& step, bool all, std::vector<bool>& changed) const {
  const auto mark = [&](const Operation* operation) -> std::vector<bool>::reference {
    return changed[static_cast<size_t>(operation->id)];
  };
  const auto has_changed = [&](const Tensor* tensor) { return mark(tensor->operation); };
  Operation& copy = *step.copy;
  if (!copy.blocks.empty())  // the types within blocks are not inferred again
    return !all && std::ranges::none_of(step.inputs, has_changed) && std::ranges::none_of(copy.captures(), has_changed);
  if (!all && std::ranges::none_of(step.inputs, has_changed)) return true;
  if (copy.parent->parent) return false;
  std::vector<Tensor*> inputs = step.inputs;
  Attributes attributes = step.source->attributes;
  const OperationDefinition& definition = *copy.definition;
  if (!settle_tensor_attributes(definition, inputs, attributes, {})) return false;
  std::vector<TensorType> types = definition.infer(InferContext(definition, inputs, attributes, copy.blocks, {}));
  bool differs = false;
  for (size_t i = 0; i < types.size(); i++) {
    if (!types[i].shape.known()) return false;
    Tensor& output = *copy.output(i);
    if (output.type == types[i]) continue;
    differs = true;
    output.type = std::move(types[i]);
  }
  copy.inputs = std::move(inputs);
  copy.attributes = std::move(attributes);
  if (!step.constant) {
    mark(&copy) = differs;
    return true;
  }
  const ConstantPtr value = known_again(copy);
  if (!value) return false;
  Operation& constant = *step.constant->operation;
  if (!all && *constant.attributes.data("value") == *value) return true;
  constant.attributes.set("value", value);
  step.constant->type = copy.output()->type;
  mark(&constant) = true;
  return true;
}

}  // namespace mpsgraph::compiler
