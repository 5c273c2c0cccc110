// Operations created only by compiler passes: fused element-wise kernels, and convolution and matmul fused with the
// following bias, residual, and activation. They have type inference but no derivative, because differentiation happens
// before the passes run.
#include "core/definition.h"
#include "core/ops/window.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_fused_elementwise(const InferContext& c) {
  const Block& body = *c.blocks[0];
  if (body.arguments.size() != c.count())
    c.graph_error(cat("fused kernel must have one operand per argument (", body.arguments.size(), "), got ", c.count(),
                      " operand(s)"));
  std::vector<TensorType> types;
  for (const Tensor* result : body.results) types.push_back(result->type);
  return types;
}

// Checks the number of operands, and the activation. The operands are source and weights, then a bias [C] if has_bias
// is set, and a residual with the result's shape if has_residual is set, then `more`.
void check_fused_operands(const InferContext& c, size_t more = 0) {
  const size_t expected = 2 + c.attributes.boolean("has_bias") + c.attributes.boolean("has_residual") + more;
  if (c.count() != expected) c.graph_error(cat("expected ", expected, " operands, got ", c.count()));
  const std::string& activation = c.attributes.string("activation");
  if (activation != "none" && activation != "relu")
    c.graph_error(cat("activation must be none or relu, got '", activation, "'"));
}

// Checks the shape of an operand of the epilogue, which kernels read without further checks.
void require_shape(const InferContext& c, size_t i, std::string_view what, const Shape& expected) {
  if (c.shape(i) != expected) c.shape_error(cat(what, " must have the shape ", expected, ", got ", c.type(i)));
}

// Checks the zero or scale of a quantized matrix, one number or one per column.
void require_parameter(const InferContext& c, size_t i, std::string_view what, int64_t columns) {
  if (c.dtype(i) != DType::float32) c.dtype_error(cat(what, " must be float32, got ", c.type(i)));
  if (c.shape(i).elements() != 1 && c.shape(i).elements() != columns)
    c.shape_error(cat(what, " must have 1 or ", columns, " elements, got ", c.type(i)));
}

Shape without_batch_broadcast(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b,
                              const InferContext& c) {
  if (a.rank() < 2 || b.rank() < 2) c.shape_error(cat("operands must have rank 2 or more, got ", a, " and ", b));
  Dims batch_a(a.dims().begin(), a.dims().end() - 2), batch_b(b.dims().begin(), b.dims().end() - 2);
  const auto batch = broadcast(Shape(batch_a), Shape(batch_b));
  if (!batch) c.shape_error(cat("batch dimensions of ", a, " and ", b, " cannot be broadcast"));
  const int ra = a.rank(), rb = b.rank();
  const int64_t k = a[ra - (transpose_a ? 2 : 1)], k2 = b[rb - (transpose_b ? 1 : 2)];
  if (k != k2) c.shape_error(cat("inner dimensions must be equal, got ", k, " and ", k2, ": ", a, " and ", b));
  Dims dims = batch->dims();
  dims.push_back(a[ra - (transpose_a ? 1 : 2)]);
  dims.push_back(b[rb - (transpose_b ? 2 : 1)]);
  return Shape(dims);
}

// Infers the result shape of a quantized convolution from that of a float convolution with the same operand shapes.
std::vector<TensorType> infer_quantized_convolution(const InferContext& c) {
  for (size_t i = 0; i < c.count(); ++i) {
    const bool fits = c.dtype(i) == DType::int8 || (i != 1 && c.dtype(i) == DType::uint8);
    if (!fits) c.dtype_error(cat("operand ", i, " must be int8", i == 1 ? "" : " or uint8", ", got ", c.type(i)));
  }
  if (c.count() != 2u + c.attributes.boolean("has_residual"))
    c.graph_error(
        cat("operands must be source, weights, and a residual if has_residual is set, got ", c.count(), " operand(s)"));
  Graph floats;
  std::vector<Tensor*> operands;
  for (size_t i : {0, 1})
    operands.push_back(floats.add("placeholder", {}, {{"type", TensorType{DType::float32, c.shape(i)}}}));
  const InferContext as_floats(c.definition, operands, c.attributes, c.blocks, c.where);
  return {{c.attributes.dtype("dtype"), definition_of("convolution2d").infer(as_floats)[0].shape}};
}

// Definition of the quantized convolution, which computes
//
// v = sum of (source - source_zero_point) weights · source_scale · weights_scale + bias
//     + (residual - residual_zero_point) · residual_scale,
//
// then applies relu if requested. If the result dtype is an integer, the result is saturate(round(v / result_scale) +
// result_zero_point). weights_scale and bias hold one number, or one per output channel.
OperationDefinition quantized_convolution() {
  OperationDefinition d;
  d.name = "quantized_convolution2d";
  d.min_inputs = 2;
  d.max_inputs = 3;
  d.attributes = window_attributes(
      2, {optional("weights_layout", std::string("HWIO")), optional("groups", int64_t{1}), layout_attribute(2)});
  for (const AttributeSpec& spec :
       {required("weights_scale", AttributeKind::data), required("bias", AttributeKind::data),
        optional("has_residual", false), optional("activation", std::string("none")), optional("dtype", DType::uint8)})
    d.attributes.push_back(spec);
  for (std::string_view name : {"source_scale", "residual_scale", "result_scale"})
    d.attributes.push_back(optional(name, 1.0));
  for (std::string_view name : {"source_zero_point", "residual_zero_point", "result_zero_point"})
    d.attributes.push_back(optional(name, int64_t{0}));
  d.infer = infer_quantized_convolution;
  d.internal = true;
  return d;
}

}  // namespace

const Family fused_family("fused", [] {
  OperationDefinition elementwise;
  elementwise.name = "fused_elementwise";
  elementwise.max_inputs = -1;
  elementwise.infer = infer_fused_elementwise;
  elementwise.block_count = 1;
  elementwise.internal = true;
  define(elementwise);

  const std::vector<AttributeSpec> fused = {optional("has_bias", false), optional("has_residual", false),
                                            optional("activation", std::string("none"))};

  OperationDefinition convolution;
  convolution.name = "fused_convolution2d";
  convolution.min_inputs = 2;
  convolution.max_inputs = 4;
  convolution.attributes = window_attributes(
      2, {optional("weights_layout", std::string("HWIO")), optional("groups", int64_t{1}), layout_attribute(2)});
  convolution.attributes.insert(convolution.attributes.end(), fused.begin(), fused.end());
  convolution.infer = [](const InferContext& c) {
    check_fused_operands(c);
    return definition_of("convolution2d").infer(c);
  };
  convolution.internal = true;
  define(convolution);

  define(quantized_convolution());

  // The elements q of the right operand may be narrower than those of the left one. The matrix is then (q - zero) *
  // scale. Zero and scale have one element, or one per column, and follow the other operands if has_zero and has_scale
  // are set.
  OperationDefinition matrix;
  matrix.name = "fused_matrix_multiplication";
  matrix.min_inputs = 2;
  matrix.max_inputs = 6;
  matrix.attributes = fused;
  for (std::string_view name : {"transpose_a", "transpose_b", "has_zero", "has_scale"})
    matrix.attributes.push_back(optional(name, false));
  matrix.infer = [](const InferContext& c) {
    check_fused_operands(c, c.attributes.boolean("has_zero") + c.attributes.boolean("has_scale"));
    const Shape result = without_batch_broadcast(c.shape(0), c.shape(1), c.attributes.boolean("transpose_a"),
                                                 c.attributes.boolean("transpose_b"), c);
    const int64_t columns = result[result.rank() - 1];
    size_t next = 2;
    if (c.attributes.boolean("has_bias")) require_shape(c, next++, "bias", Shape(Dims{columns}));
    if (c.attributes.boolean("has_residual")) require_shape(c, next++, "residual", result);
    if (c.attributes.boolean("has_zero")) require_parameter(c, next++, "zero", columns);
    if (c.attributes.boolean("has_scale")) require_parameter(c, next, "scale", columns);
    return std::vector<TensorType>{{c.dtype(0), result}};
  };
  matrix.internal = true;
  define(matrix);
});

}  // namespace mpsgraph::ops
