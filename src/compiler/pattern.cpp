// Matches tensors with patterns.
#include "compiler/pattern.h"

#include <algorithm>

namespace mpsgraph::compiler {

Pattern Pattern::as(Capture capture) const {
  Pattern named = *this;
  named.capture_ = capture;
  return named;
}

bool Pattern::matches(const Tensor* tensor, Captured& captured) const {
  if (capture_ != Capture::any) {
    const Tensor*& named = captured[capture_];
    if (named && named != tensor) return false;
    named = tensor;
  }
  if (number_) return number_of(tensor) == number_;
  if (kinds_.empty()) return true;
  const Operation& operation = *tensor->operation;
  if (std::ranges::find(kinds_, operation.kind()) == kinds_.end()) return false;
  return matches_inputs(operation.inputs, false, captured) ||
         (commutes(operation) && matches_inputs(operation.inputs, true, captured));
}

bool Pattern::matches_inputs(std::span<Tensor* const> inputs, bool swapped, Captured& captured) const {
  if (operands_.empty()) return true;
  if (operands_.size() != inputs.size()) return false;
  const Captured before = captured;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (operands_[i].matches(inputs[swapped ? 1 - i : i], captured)) continue;
    captured = before;
    return false;
  }
  return true;
}

bool commutes(const Operation& operation) {
  return operation.is({"addition", "multiplication", "equal", "not_equal", "logical_and", "logical_or"});
}

std::optional<double> number_of(const Tensor* tensor) {
  if (!tensor->operation->is("constant")) return {};
  const ConstantPtr& value = tensor->operation->attributes.data("value");
  if (value->elements() == 0 || (!value->is_splat() && value->elements() != 1)) return {};
  return value->imaginary() == 0 ? std::optional(value->scalar()) : std::nullopt;
}

}  // namespace mpsgraph::compiler
