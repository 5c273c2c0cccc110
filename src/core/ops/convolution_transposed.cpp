// Operation family convolution: the transposed convolution and its gradients. They are implemented by the operations of
// the ordinary convolution.
//
// A transposed convolution is the gradient of an ordinary convolution with respect to its source. It therefore takes
// the descriptor of the ordinary convolution, and its own result shape as an operand, because several result shapes are
// possible. The gradient of a transposed convolution with respect to its source is the ordinary convolution. The
// gradient of a transposed convolution with respect to its weights is the ordinary weights gradient with source and
// incoming gradient exchanged.
#include "core/ops/convolution.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

std::vector<TensorType> infer_transposed(const InferContext& context) {
  return definition_of("convolution2d_data_gradient").infer(context);
}

// Gradient of a transposed convolution with respect to its source, which is an ordinary convolution. Operands: incoming
// gradient, weights, output_shape.
std::vector<TensorType> infer_transposed_data_gradient(const InferContext& context) {
  const TensorType made = definition_of("convolution2d").infer(context)[0];
  return {{made.dtype, stated_shape(context, 2, made.shape)}};
}

// Gradient of a transposed convolution with respect to its weights. Operands: incoming gradient, source, output_shape.
std::vector<TensorType> infer_transposed_weights_gradient(const InferContext& context) {
  const std::vector<Tensor*> exchanged{context.inputs[1], context.inputs[0], context.inputs[2]};
  const InferContext forward(context.definition, exchanged, context.attributes, context.blocks, context.where);
  return definition_of("convolution2d_weights_gradient").infer(forward);
}

using Inputs = std::vector<Tensor*>;

Inputs as_data_gradient(Builder& builder, const Inputs& inputs, const Attributes& attributes) {
  return {builder.graph().add("convolution2d_data_gradient", inputs, attributes)};
}

Inputs as_convolution(Builder& builder, const Inputs& inputs, const Attributes& attributes) {
  return {builder.graph().add("convolution2d", {inputs[0], inputs[1]}, attributes)};
}

Inputs as_weights_gradient(Builder& builder, const Inputs& inputs, const Attributes& attributes) {
  return {builder.graph().add("convolution2d_weights_gradient", {inputs[1], inputs[0], inputs[2]}, attributes)};
}

}  // namespace

const Family convolution_transposed_family("convolution", [] {
  const auto add = [](std::string_view name, Infer infer, Decompose decompose) {
    OperationDefinition definition = primitive(
        name, 3,
        window_attributes(
            2, {optional("weights_layout", std::string("HWIO")), optional("groups", int64_t{1}), layout_attribute(2)}),
        std::move(infer), {});
    definition.decompose = std::move(decompose);
    define(std::move(definition));
  };
  // The operands are source, weights, and output_shape.
  add("convolution_transpose2d", infer_transposed, as_data_gradient);
  add("convolution_transpose2d_data_gradient", infer_transposed_data_gradient, as_convolution);
  add("convolution_transpose2d_weights_gradient", infer_transposed_weights_gradient, as_weights_gradient);
});

}  // namespace mpsgraph::ops
