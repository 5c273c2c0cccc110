// Cost formulas, one function per family of operations.
#include "compiler/operation_cost.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/reduction_shape.h"
#include "core/definition.h"
#include "core/kind_table.h"
#include "core/ops/convolution.h"
#include "core/ops/fourier_transform.h"
#include "core/ops/recurrent.h"

namespace mpsgraph::compiler {
namespace {

const Dims& dims_of(const Tensor* tensor) { return tensor->type.shape.dims(); }
double elements_of(const Tensor* tensor) { return static_cast<double>(tensor->type.shape.elements()); }
double bytes_of(const Tensor* tensor) {
  return tensor->type.history ? 0 : elements_of(tensor) * static_cast<double>(size_of(tensor->type.dtype));
}

// Whether the operation is a convolution of a kind that has kernels; transposed convolutions are expanded to these
// kinds.
constexpr KindSet forward_convolutions{"convolution2d",           "convolution3d",       "depthwise_convolution2d",
                                       "depthwise_convolution3d", "fused_convolution2d", "quantized_convolution2d"};
constexpr KindSet data_gradients{"convolution2d_data_gradient", "convolution3d_data_gradient",
                                 "depthwise_convolution2d_data_gradient", "depthwise_convolution3d_data_gradient"};
constexpr KindSet weights_gradients{"convolution2d_weights_gradient", "convolution3d_weights_gradient",
                                    "depthwise_convolution2d_weights_gradient",
                                    "depthwise_convolution3d_weights_gradient"};
bool is_convolution(Kind kind) {
  return forward_convolutions.contains(kind) || data_gradients.contains(kind) || weights_gradients.contains(kind);
}

// Multiplications and additions over all groups, batch elements, and positions, counting only filter taps that read the
// source rather than padding.
double convolution_flops(const Operation& operation) {
  const Kind kind = operation.kind();
  const Tensor *source = operation.input(0), *weights = operation.input(1), *result = operation.output();
  if (data_gradients.contains(kind)) std::swap(source, result);
  if (weights_gradients.contains(kind)) source = operation.input(1), weights = result, result = operation.input(0);
  const ops::Convolution c(operation.attributes);
  const Dims &in = dims_of(source), &out = dims_of(result), &taps = dims_of(weights);
  const int64_t channels = ops::size_at(in, c.channel);
  const ops::GroupedWeights grouped(c, channels, taps);
  double count = static_cast<double>(grouped.groups * grouped.inputs * grouped.outputs);
  double positions = 1;
  for (int i = 0; i < c.count; ++i) {
    const auto window = c.window(i, ops::size_at(in, c.spatial[i]), taps[c.weights_spatial[i]]);
    if (!window) return 0;
    positions *= static_cast<double>(ops::size_at(out, c.spatial[i]));
    int64_t seen = 0;
    for (int64_t tap = 0; tap < window->kernel; ++tap) {
      const auto inside = window->inside(tap);
      seen += inside.last - inside.first;
    }
    count *= static_cast<double>(seen);
  }
  const double images = positions > 0 ? elements_of(result) / positions / ops::size_at(out, c.channel) : 0;
  return 2 * images * count;
}

double product_flops(const Operation& operation) {
  const Dims& a = dims_of(operation.input(0));
  const Attributes& attributes = operation.attributes;
  const bool transposed = attributes.has("transpose_a") && attributes.boolean("transpose_a");
  const int64_t inner = a[a.size() - (transposed ? 2 : 1)];
  const bool complex = is_complex(operation.input(0)->type.dtype);
  return (complex ? 8 : 2) * elements_of(operation.output()) * static_cast<double>(inner);
}

// Flops of softmax(q kᵀ) v, without the flops of the softmax.
double attention_flops(const Operation& operation) {
  const Dims &key = dims_of(operation.input(1)), &query = dims_of(operation.input(0));
  const auto size = static_cast<double>(query.back()), keys = static_cast<double>(key[key.size() - 2]);
  return 2 * elements_of(operation.output()) * keys + 2 * elements_of(operation.input(0)) / size * keys * size;
}

// Flops of the matmuls of all time steps: between a step's state and the recurrent weights and, if input weights are
// given, between the step's input and the input weights. The gradient operation has the same number of flops.
double recurrent_flops(const Operation& operation) {
  const bool gradient = operation.is("recurrent_sequence_gradient");
  const Dims& weights = dims_of(operation.input(gradient ? 0 : 1));  // shape: [directions, gates * hidden, hidden]
  // shape: [time steps, batch, directions * gates * hidden]
  const Dims& gates = dims_of(operation.input(gradient ? 1 : 0));
  double products = static_cast<double>(weights[0] * weights[1] * weights[2]);
  if (const int at = gradient ? -1
                              : ops::NamedOperands(ops::sequence_operands, operation.attributes, operation.inputs)
                                    .index("input_weight");
      at >= 0)
    products += elements_of(operation.inputs[static_cast<size_t>(at)]);
  return 2 * static_cast<double>(gates[0] * gates[1]) * products;
}

// 5 n log2 n flops for n complex points; half as many if the source or the result is real.
double fourier_flops(const Operation& operation) {
  const Tensor *source = operation.input(0), *result = operation.output();
  const Tensor* full = elements_of(source) > elements_of(result) ? source : result;
  const bool half = !is_complex(source->type.dtype) || !is_complex(result->type.dtype);
  double points = 1;
  for (int axis : ops::fourier_axes(operation.attributes, full->type.shape.rank())) points *= dims_of(full)[axis];
  return points > 1 ? (half ? 2.5 : 5) * elements_of(full) * std::log2(points) : 0;
}

double sum_of_inputs(const Operation& operation) {
  double sum = 0;
  for (const Tensor* in : operation.inputs) sum += elements_of(in);
  return sum;
}

// One flop per computed or reduced element.
double region_flops(const Block& block) {
  double flops = 0;
  for (const auto& inner : block.operations) flops += cost_of(*inner).flops;
  return flops;
}

double flops_of(const Operation& operation) {
  const std::string_view family = operation.definition->family;
  if (operation.is("fused_elementwise")) return region_flops(*operation.blocks[0]);
  if (is_convolution(operation.kind())) return convolution_flops(operation);
  if (operation.is({"matrix_multiplication", "fused_matrix_multiplication", "quantized_matrix_multiplication"}))
    return product_flops(operation);
  if (operation.is("scaled_dot_product_attention")) return attention_flops(operation);
  if (operation.is({"recurrent_sequence", "recurrent_sequence_gradient"})) return recurrent_flops(operation);
  // Per element of the source: a subtraction of the mean, a multiplication, and one addition to each of two sums.
  if (operation.kind().name().starts_with("fused_batch_")) return 4 * elements_of(operation.input(0));
  if (family == "fourier_transform") return fourier_flops(operation);
  if (family == "reduction" || family == "pooling" || family == "cumulative" || is_reduction(operation))
    return sum_of_inputs(operation);
  if (operation.definition->elementwise) return elements_of(operation.output());
  return 0;
}

// Whether the operation only moves elements, and may therefore read only a part of an operand: those elements that it
// moves to the result. The size of the result then determines how much it reads.
bool moves_elements(const Operation& operation) {
  const std::string_view family = operation.definition->family;
  return family == "shape" || family == "gather" || family == "memory";
}

}  // namespace

OperationCost cost_of(const Operation& operation) {
  OperationCost cost;
  if ((!operation.blocks.empty() && !operation.is("fused_elementwise")) || operation.is("call")) return cost;
  for (const auto& output : operation.outputs) cost.bytes_written += bytes_of(output.get());
  if (operation.is("assign")) {
    cost.bytes_read = cost.bytes_written = bytes_of(operation.input(1));
  } else if (moves_elements(operation)) {
    double all = 0;
    for (const Tensor* in : operation.inputs) all += bytes_of(in);
    cost.bytes_read = std::min(all, cost.bytes_written);
  } else {
    const std::set<const Tensor*> operands(operation.inputs.begin(), operation.inputs.end());
    for (const Tensor* in : operands) cost.bytes_read += bytes_of(in);
  }
  cost.flops = flops_of(operation);
  return cost;
}

}  // namespace mpsgraph::compiler
