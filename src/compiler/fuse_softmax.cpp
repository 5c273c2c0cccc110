// Part of pass fuse: computes each softmax once, and never materializes one-hot labels.
//
//   %s = softmax(%x)                                       %s = softmax(%x)
//   %d = softmax_gradient(%g, %x)                     ->   %d = softmax_gradient_of_result(%g, %s)
//
//   %h = one_hot(%i)
//   %l = softmax_cross_entropy(%x, %h)                ->   %l = class_cross_entropy(%x, %i)
//   %d = softmax_cross_entropy_gradient(%u, %x, %h)   ->   %d = class_cross_entropy_gradient(%u, %x, %i)
// The rewrite applies only to float32, because a half-precision result has already been rounded. It runs after pass
// indices, which has inserted the range check of the class indices.
#include <cstring>
#include <unordered_map>

#include "compiler/passes.h"
#include "core/definition.h"
#include "core/exact_numbers.h"
#include "core/ops/shape.h"

namespace mpsgraph::compiler {
namespace {

int64_t axis_of(const Operation& operation, const Tensor* source) {
  return ops::wrap_axis(operation.attributes.integer("axis"), source->type.shape.rank());
}

bool is_float_element(const Operation& operation, std::string_view attribute, float wanted) {
  const ConstantPtr element = element_of(operation.attributes, attribute, DType::float32);
  float value = 0;
  std::memcpy(&value, element->bytes(), sizeof value);
  return value == wanted;
}

// The class indices if the labels are a one_hot along the axis of the loss, with 1 for the class and 0 otherwise; null
// for other labels.
const Tensor* classes_of(const Operation& loss, const Tensor* source, const Tensor* labels) {
  const Operation& one_hot = *labels->operation;
  if (!one_hot.is("one_hot") || source->type.dtype != DType::float32 || source->type.shape.elements() == 0)
    return nullptr;
  if (labels->type != source->type || axis_of(one_hot, labels) != axis_of(loss, source)) return nullptr;
  return is_float_element(one_hot, "on_value", 1) && is_float_element(one_hot, "off_value", 0) ? one_hot.input(0)
                                                                                               : nullptr;
}

}  // namespace

void fuse_softmax(Program& program) {
  const auto concerned = [](const Operation& operation) {
    return operation.is({"softmax_gradient", "softmax_cross_entropy", "softmax_cross_entropy_gradient"});
  };
  if (!any_operation(program, concerned)) return;
  std::unordered_map<const Tensor*, std::vector<const Operation*>> softmax_of;
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (operation.is("softmax")) softmax_of[operation.input(0)].push_back(&operation);
    if (!concerned(operation)) return std::nullopt;
    if (operation.is("softmax_gradient")) {
      const Tensor *g = operation.input(0), *x = operation.input(1);
      if (x->type.dtype != DType::float32 || g->type != x->type) return std::nullopt;
      for (const Operation* softmax : softmax_of[x])
        if (axis_of(*softmax, x) == axis_of(operation, x) && softmax->parent->encloses(operation.parent))
          return std::vector<Tensor*>{r.create(operation, "softmax_gradient_of_result",
                                               {r.now(g), r.now(softmax->output())}, operation.attributes)
                                          ->output()};
      return std::nullopt;
    }
    const bool is_gradient = operation.is("softmax_cross_entropy_gradient");
    const Tensor* source = operation.input(is_gradient);
    const Tensor* classes = classes_of(operation, source, operation.input(1 + is_gradient));
    if (!classes) return std::nullopt;
    std::vector<Tensor*> inputs;
    if (is_gradient) inputs.push_back(r.now(operation.input(0)));
    inputs.push_back(r.now(source));
    inputs.push_back(r.now(classes));
    const Kind kind = is_gradient ? Kind("class_cross_entropy_gradient") : "class_cross_entropy";
    return std::vector<Tensor*>{r.create(operation, kind, inputs, operation.attributes)->output()};
  });
}

}  // namespace mpsgraph::compiler
