// Inserts quantization into a graph: finds the tensors to quantize, and adds quantize and dequantize operations.
//
//   %c = convolution2d(%x, %w)                     %quantize = quantize(%x, %sx) : int8
//   %b = convolution2d(%x, %v)                     %dequantize = dequantize(%quantize, %sx)
//   %a = addition(%c, %b)                          %c = convolution2d(%dequantize, dequantize(%iw, %sw) {axis=3})
//   %h = relu(%a)                           ->     %b = convolution2d(%dequantize, dequantize(%iv, %sv) {axis=3})
//   %y = convolution2d(%h, %u)                     %quantize_1 = quantize(%b, %sb) : int8
//                                                  %a = addition(%c, dequantize(%quantize_1, %sb))
//                                                  %h = relu(%a)
//                                                  %quantize_2 = quantize(%h, %sh) {dtype=uint8}
//                                                  %y = convolution2d(dequantize(%quantize_2, %sh),
//                                                                     dequantize(%iu, %su) {axis=3})
// (%w, %v, %u are float constants, %iw, %iv, %iu are int8 constants, and all %s are float32 scales, per channel for
// weights. The caller specifies the other scales, the zero points (0 in this example), and the dtypes. Each dequantize
// is a separate operation.) If the results of two convolutions are added, one result is not quantized, so that a kernel
// can add the other result to unrounded sums. The pass in quantize.cpp turns the result into integer arithmetic.
#include "mpsgraph/compiler/quantization.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "compiler/inference.h"
#include "compiler/rewrite.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/convolution.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

// The output-channel axis of the constant weights; -1 if the operation cannot become an integer operation.
int outputs_axis(const Operation& operation) {
  const bool convolution = operation.is("convolution2d");
  if (!convolution && !operation.is("matrix_multiplication")) return -1;
  const Tensor& weights = *operation.input(1);
  if (!weights.operation->is("constant") || operation.output()->dtype() != DType::float32) return -1;
  int out = weights.type.shape.rank() - 1, in = out - 1;
  if (convolution) {
    const ops::Convolution c(operation.attributes);
    if (c.groups != 1) return -1;
    out = c.weights_out, in = c.weights_in;
  } else if (out != 1 || operation.input(0)->type.shape.rank() < 2) {
    return -1;
  }
  return weights.type.shape[in] % 4 == 0 && weights.type.shape[in] > 0 ? out : -1;
}

// Whether the tensor is the result of a quantizable convolution or matmul, possibly with a bias, to which a kernel can
// add a residual.
bool is_sum_of_products(const Tensor* tensor, const Users& users) {
  const Operation* maker = tensor->operation;
  if (users.of(tensor).size() != 1) return false;
  if (maker->is("addition")) {
    const bool first = maker->input(1)->operation->is("constant");
    const Tensor* value = maker->input(first ? 0 : 1);
    if (!maker->input(first ? 1 : 0)->operation->is("constant") || users.of(value).size() != 1) return false;
    maker = value->operation;
  }
  return outputs_axis(*maker) >= 0;
}

// Whether the sum, possibly after a relu, is the source of a convolution or matmul that can become an integer
// operation. Otherwise nothing reads the sum as integers, so its residual is not quantized.
bool becomes_bytes(const Tensor* sum, const Users& users) {
  const Operation* user = users.only(sum);
  const Tensor* value = user && user->is("relu") ? user->output() : sum;
  const auto all = users.of(value);
  return std::ranges::any_of(all,
                             [&](const Operation* u) { return u && outputs_axis(*u) >= 0 && u->input(0) == value; });
}

Program as_program(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                   const Rewriter::Visit& visit) {
  std::vector<const Operation*> roots;
  for (const auto* tensors : {&inputs, &outputs})
    for (const Tensor* tensor : *tensors) roots.push_back(tensor->operation);
  Program program;
  Rewriter r(graph, needed_by(graph, roots), visit);
  r.copy_operations(graph.root());
  for (const Tensor* input : inputs) program.feeds.push_back(r.graph().find(input->operation->name)->output());
  program.targets = r.now(outputs);
  for (Tensor* variable : graph.variables()) {
    if (!r.has(*variable->operation)) continue;
    program.variables.push_back(r.now(variable));
    program.source_variables.push_back(variable);
  }
  program.graph = r.take_graph();
  return program;
}

// Quantizes a value and dequantizes the result.
Tensor* rounded(Graph& graph, Tensor* value, const Quantized& how) {
  Builder b(graph);
  std::vector<Tensor*> steps{b.scalar(DType::float32, how.scale)};
  if (how.zero_point != 0) steps.push_back(b.scalar(how.dtype, static_cast<double>(how.zero_point)));
  std::vector<Tensor*> operands{value};
  operands.insert(operands.end(), steps.begin(), steps.end());
  operands[0] = graph.add("quantize", operands, {{"dtype", how.dtype}});
  return graph.add("dequantize", operands, {{"dtype", DType::float32}});
}

// Quantizes weights symmetrically with the scale largest / 127, so -128 is not used.
Tensor* rounded_weights(Graph& graph, const Operation& constant, int axis, bool per_channel) {
  const ConstantPtr& value = constant.attributes.data("value");
  const Dims& dims = value->dims();
  const Dims strides = contiguous_strides(dims);
  const int64_t channels = per_channel ? dims[axis] : 1, stride = per_channel ? strides[axis] : 1;
  std::vector<float> numbers(static_cast<size_t>(value->elements()));
  value->expand_into(numbers.data());
  const auto channel = [&](size_t i) { return static_cast<int64_t>(i) / stride % channels; };
  std::vector<float> scales(static_cast<size_t>(channels), 0);
  for (size_t i = 0; i < numbers.size(); ++i)
    scales[channel(i)] = std::max(scales[channel(i)], std::abs(numbers[i]) / 127);
  for (float& scale : scales) scale = scale > 0 && std::isfinite(scale) ? scale : 1;
  std::vector<int8_t> integers(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float steps = std::nearbyint(numbers[i] / scales[channel(i)]);
    integers[i] = static_cast<int8_t>(steps == steps ? std::clamp(steps, -127.f, 127.f) : 0.f);
  }
  const auto constant_of = [&](DType dtype, const Dims& shape, const void* data) {
    return graph.add("constant", {}, {{"value", ConstantData::copy(dtype, shape, data)}});
  };
  Tensor* bytes = constant_of(DType::int8, dims, integers.data());
  Tensor* scale = constant_of(DType::float32, per_channel ? Dims{channels} : Dims{}, scales.data());
  return graph.add("dequantize", {bytes, scale}, {{"axis", int64_t{per_channel ? axis : 0}}});
}

}  // namespace

std::vector<Tensor*> tensors_to_quantize(const Graph& graph, const std::vector<Tensor*>& outputs) {
  Program copy = as_program(graph, {}, outputs, [](Rewriter&, const Operation&) { return std::nullopt; });
  const Users users(copy);
  std::unordered_set<std::string> names;  // names already used by operations with one result
  any_operation(copy, [&](const Operation& operation) {
    const auto add = [&](const Tensor* tensor) {
      const bool constant = tensor->operation->is("constant");
      if (!constant && tensor->operation->outputs.size() == 1) names.insert(tensor->operation->name);
    };
    if (operation.parent->owner) return false;  // operations within blocks are left unchanged
    if (outputs_axis(operation) >= 0) add(operation.input(0));
    if (!operation.is("addition") || !becomes_bytes(operation.output(), users)) return false;
    for (int i : {0, 1}) {
      const bool same = operation.input(i)->type == operation.input(1 - i)->type;
      if (!same || !is_sum_of_products(operation.input(i), users)) continue;
      add(operation.input(1 - i));
      break;
    }
    return false;
  });
  std::vector<Tensor*> result;
  for (const auto& operation : graph.root().operations)
    if (names.count(operation->name)) result.push_back(operation->output());
  return result;
}

Program quantized(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                  const std::unordered_map<const Tensor*, Quantized>& tensors, bool per_channel) {
  std::unordered_map<const Operation*, Tensor*> weights;  // quantized weights, keyed by the constant operation
  return as_program(graph, inputs, outputs, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    const int axis = operation.parent->owner ? -1 : outputs_axis(operation);
    Operation* made = nullptr;
    if (axis >= 0 && tensors.count(operation.input(0))) {
      const Operation& constant = *operation.input(1)->operation;
      Tensor*& rounded = weights[&constant];
      if (!rounded) rounded = rounded_weights(r.graph(), constant, axis, per_channel);
      made = r.create(operation, operation.kind(), {r.now(operation.input(0)), rounded}, operation.attributes);
    }
    const auto found = operation.outputs.size() == 1 ? tensors.find(operation.output()) : tensors.end();
    if (!made && found == tensors.end()) return {};
    if (!made) made = r.clone(operation);
    Tensor* value = made->output();
    return std::vector<Tensor*>{found == tensors.end() ? value : rounded(r.graph(), value, found->second)};
  });
}

}  // namespace mpsgraph::compiler
