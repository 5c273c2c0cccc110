// Operation family convolution: the transposed convolution and its gradients. They are implemented by the operations of
// the ordinary convolution.
//
// A transposed convolution is the gradient of an ordinary convolution with respect to its source. It therefore takes
// the descriptor of the ordinary convolution, and its own result shape as an operand, because several result shapes are
// possible. The gradient of a transposed convolution with respect to its source is the ordinary convolution. The
// gradient of a transposed convolution with respect to its weights is the ordinary weights gradient with source and
// incoming gradient exchanged.
#include "core/ops/convolution.h"
#include "core/ops/convolution_arguments.h"
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
  const auto add = [](Kind name, Infer infer, Decompose decompose) {
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

  describe("convolution_transpose2d",
           "source, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats,
           cat(R"(
Compute a transposed two-dimensional convolution.

With a stride above 1, a transposed convolution enlarges an image, and a convolution with that stride shrinks
it.

This is convolution2d_data_gradient: its arguments describe the forward convolution, from output_shape to the
shape of source. It computes

    result[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] +=
        source[n, y, x, o] * weights[i, j, c, o]

Args:
    source: Floating-point images of shape (N, H, W, O), or (N, O, H, W) with data_layout="NCHW".
    weights: Kernel of shape (kernel_h, kernel_w, C / groups, O), or (O, C / groups, kernel_h, kernel_w) with
        weights_layout="OIHW"; the dtype of source. The channels of source are on the axis of the forward
        convolution's output channels.
    output_shape: Shape of the result, as ints or as an integer tensor of rank 1. It is required because with a
        stride above 1 several sizes are possible: (H - 1) * stride + (kernel - 1) * dilation + 1 - padding, or
        up to stride - 1 more.
    strides: Strides of the forward convolution in pixels: an int, or (y, x).
    dilations: Dilations of the forward convolution in pixels: an int, or (y, x).
    padding: Padding of the forward convolution: "TF_VALID" (no padding, the default), "TF_SAME",
        "ONNX_SAME_LOWER", or ((top, bottom), (left, right)) in pixels.
Raises:
    ShapeError: If shapes do not match, for example because the forward convolution of output_shape does not
        have the shape of source, or the padding is malformed.
    DTypeError: If the dtypes differ or are not floating-point.
    GraphError: If the padding style or a layout is not supported.
Returns: A tensor of shape output_shape, (N, out_h, out_w, C) or (N, C, out_h, out_w), with the dtype of source.
Gradient: computed by convolution_transpose2d_data_gradient for source, and by
convolution_transpose2d_weights_gradient for weights.
Source: MPSGraph convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name: and its
variant with outputShapeTensor:.
>>> x, w = g.reshape(g.constant([1.0, 2.0]), (1, 1, 2, 1)), g.constant(1.0, (1, 2, 1, 1))
>>> g.run({}, g.convolution_transpose2d(x, w, (1, 1, 4, 1), strides=(1, 2))).numpy().ravel().tolist()
[1.0, 1.0, 2.0, 2.0])",
               convolution2d_arguments));
  describe("convolution_transpose2d_data_gradient",
           "incoming, weights, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution_transpose2d with respect to its source, which is a forward convolution.

result = convolution2d(incoming, weights).

Gradient: computed by convolution2d_data_gradient for incoming, and by convolution2d_weights_gradient for
weights.
Source: MPSGraph convolutionTranspose2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:
forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.
>>> d, w = g.constant(1.0, (1, 1, 4, 1)), g.constant(3.0, (1, 2, 1, 1))
>>> y = g.convolution_transpose2d_data_gradient(d, w, (1, 1, 2, 1), strides=(1, 2))
>>> g.run({}, y).numpy().ravel().tolist()
[6.0, 6.0])");
  describe("convolution_transpose2d_weights_gradient",
           "incoming, source, output_shape: shape, *, "
           "strides: sizes, dilations: sizes, groups, padding: padding, data_layout, weights_layout",
           DTypeClass::floats, R"(
Compute the gradient of convolution_transpose2d with respect to its weights.

result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o]. This is
convolution2d_weights_gradient with incoming and source exchanged.

Gradient: computed by convolution2d_data_gradient for incoming, and by convolution2d for source.
Source: MPSGraph convolutionTranspose2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:
forwardConvolutionDescriptor:name: and its variant with outputShapeTensor:.
>>> d, x = g.constant(1.0, (1, 1, 4, 1)), g.constant(3.0, (1, 1, 2, 1))
>>> y = g.convolution_transpose2d_weights_gradient(d, x, (1, 2, 1, 1), strides=(1, 2))
>>> g.run({}, y).numpy().ravel().tolist()
[6.0, 6.0])");
});

}  // namespace mpsgraph::ops
