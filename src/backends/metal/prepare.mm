// Compiler passes for MPSGraph. Options::observe receives the program's text after each pass, as for all other passes.
#include "backends/metal/prepare.h"

#include <algorithm>
#include <cstddef>

#include "backends/metal/block_checks.h"
#include "backends/metal/block_prints.h"
#include "backends/metal/lowering.h"
#include "backends/metal/quantization_packed.h"
#include "compiler/passes.h"
#include "core/definition.h"
#include "core/kind_table.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph::metal {
namespace {

bool is_empty(const Tensor* tensor) { return tensor->shape().known() && tensor->shape().elements() == 0; }

ConstantPtr nothing(const TensorType& type) {
  const std::vector<std::byte> element(size_of(type.dtype));
  return ConstantData::splat(type.dtype, type.shape.dims(), element.data());
}

bool concerns_nothing(const Operation& operation) {
  if (operation.is({"placeholder", "constant", "variable"})) return false;
  // Operations on histories are not removed here, because their lowerings handle empty values.
  const auto history = [](const auto& tensor) { return tensor->type.history > 0; };
  if (std::ranges::any_of(operation.inputs, history) || std::ranges::any_of(operation.outputs, history)) return false;
  const auto empty = [](const auto& tensor) { return is_empty(&*tensor); };
  return std::ranges::any_of(operation.inputs, empty) || std::ranges::any_of(operation.outputs, empty);
}

bool gives_nothing(const Operation& operation) {
  return std::ranges::all_of(operation.outputs, [](const auto& output) { return is_empty(output.get()); });
}

// Replace a split with slices. Parts without elements become constants.
std::vector<Tensor*> split_without_nothing(compiler::Rewriter& r, const Operation& split) {
  const Dims& dims = split.input(0)->shape().dims();
  const int64_t given = split.attributes.integer("axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(dims.size()) : given);
  std::vector<Tensor*> parts;
  Ints starts(dims.size(), 0), ends(dims), strides(dims.size(), 1);
  int64_t at = 0;
  for (const auto& output : split.outputs) {
    const int64_t size = output->shape().dims()[axis];
    starts[axis] = at;
    ends[axis] = at += size;
    parts.push_back(is_empty(output.get()) ? r.constant(split, nothing(output->type))
                                           : r.create(split, "slice", {r.now(split.input(0))},
                                                      {{"starts", starts}, {"ends", ends}, {"strides", strides}})
                                                 ->output());
  }
  return parts;
}

compiler::Rewriter::Replacement without_nothing(compiler::Rewriter& r, const Operation& operation) {
  if (!concerns_nothing(operation) || is_effect(operation) || !operation.blocks.empty()) return {};
  if (operation.is("split")) return split_without_nothing(r, operation);
  if (gives_nothing(operation)) {
    std::vector<Tensor*> results;
    for (const auto& output : operation.outputs) results.push_back(r.constant(operation, nothing(output->type)));
    return results;
  }
  if (operation.is("concat")) {
    std::vector<Tensor*> parts;
    for (const Tensor* input : operation.inputs)
      if (!is_empty(input)) parts.push_back(r.now(input));
    if (parts.size() == 1) return parts;
    return std::vector<Tensor*>{r.create(operation, "concat", parts, operation.attributes)->output()};
  }
  // A result computed only from empty tensors is constant.
  std::vector<Tensor*> inputs;
  for (const Tensor* input : operation.inputs)
    inputs.push_back(is_empty(input) ? r.constant(operation, nothing(input->type)) : r.now(input));
  std::vector<TensorType> types;
  for (const auto& output : operation.outputs) types.push_back(output->type);
  const auto results = r.append(operation, std::move(inputs), std::move(types));
  std::vector<Tensor*> made;
  for (const auto& output : results->outputs) made.push_back(output.get());
  return made;
}

void remove_nothing(compiler::Program& program) {
  // Targets may still be empty: results of control flow, and feeds that are also targets.
  for (Tensor*& target : program.targets)
    if (is_empty(target) && !target->operation->is("constant"))
      target = program.graph->add("constant", {}, {{"value", nothing(target->type)}});
  const auto concerned = [](const Operation& operation) { return concerns_nothing(operation); };
  if (!compiler::any_operation(program, concerned)) return;
  // Folding can evaluate the primitive operations of composites, but not composites that MPSGraph implements.
  const auto composite = [](const Operation& operation) {
    return concerns_nothing(operation) && operation.definition->decompose && !gives_nothing(operation);
  };
  while (compiler::any_operation(program, composite))
    compiler::rewrite(program, [&](compiler::Rewriter& r, const Operation& operation) {
      Builder builder(r.graph());
      return composite(operation)
                 ? compiler::Rewriter::Replacement(decomposed(builder, operation, r.now(operation.inputs)))
                 : std::nullopt;
    });
  compiler::rewrite(program, without_nothing);
  compiler::fold(program);
}

// Whether the operation sums several float16 or bfloat16 elements, a case for which Apple does not document the
// precision. Such sums occur in windowed operations, and in operations that add several elements at one position.
// Reductions and moments are already in float32 after the widen pass; scatters and scans convert themselves.
bool adds_halves(const Operation& operation) {
  static constexpr KindSet kinds{
      "avg_pooling2d", "avg_pooling2d_gradient", "avg_pooling4d", "avg_pooling4d_gradient", "sum_pooling4d",
      "sum_pooling4d_gradient", "max_pooling2d_gradient", "max_pooling4d_gradient",
      "max_pooling2d_gradient_from_indices", "max_pooling4d_gradient_from_indices", "resize_bilinear",
      "resize_bilinear_gradient", "resize_nearest_gradient", "stencil_windows", "stencil_windows_data_gradient",
      "stencil_windows_weights_gradient", "tile_gradient", "pad_gradient",
      // On Macs, gradients of convolution weights abort the process unless the results are float32.
      "convolution2d_weights_gradient", "depthwise_convolution2d_weights_gradient",
      "depthwise_convolution3d_weights_gradient"};
  // PyTorch lists gradients of convolution data among the operations that fail with bfloat16 on Macs.
  static constexpr KindSet of_bfloat16{"convolution2d_data_gradient", "depthwise_convolution2d_data_gradient",
                                       "depthwise_convolution3d_data_gradient"};
  if (of_bfloat16.contains(operation.kind())) return operation.inputs[0]->dtype() == DType::bfloat16;
  return kinds.contains(operation.kind()) && is_of_halves(operation);
}

compiler::Rewriter::Replacement added_in_float32(compiler::Rewriter& r, const Operation& operation) {
  if (!adds_halves(operation)) return {};
  Builder builder(r.graph());
  Tensor* sum = r.graph().add(operation.kind(), widened(builder, r.now(operation.inputs)), operation.attributes);
  return narrowed(builder, {sum}, operation);
}

// Keep attention only if it has neither a causal mask, nor dropout, nor results for its gradient, and packed weights
// only if MPSGraph can read them; other forms are composed.
bool keeps(const Operation& operation) {
  if (!find_lowering(operation.kind())) return false;
  if (operation.is("dequantize_packed")) return dequantizes_natively(operation);
  return !operation.is("scaled_dot_product_attention") ||
         (operation.outputs.size() == 1 && !operation.attributes.boolean("causal") &&
          operation.attributes.real("dropout") == 0);
}

}  // namespace

void prepare(compiler::Program& program, const compiler::Options& options) {
  // The passes for layouts, fusion, and order of execution are omitted, because MPSGraph chooses these itself.
  using enum compiler::OptionalPass;
  const compiler::Target target{.passes = {prune, fold, simplify, absorb}, .keeps = keeps};
  compiler::run_passes(program, target, options);
  if (compiler::any_operation(program, adds_halves)) compiler::rewrite(program, added_in_float32);
  remove_nothing(program);
  carry_checks(program);
  carry_prints(program);
  if (options.observe) options.observe("remove_nothing", print(*program.graph));
}

}  // namespace mpsgraph::metal
