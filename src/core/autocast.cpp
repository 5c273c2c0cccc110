// The autocast table, and the code that casts operands according to the table.
//
// The operands of matmul-like operations are cast to low precision, in which these operations are fast and accumulate
// in float32. The operands of reductions over many elements, of functions that amplify rounding errors or leave the
// range of float16, and of losses are cast to float32. All other operations accept their operands unchanged.
#include "mpsgraph/core/autocast.h"

#include <algorithm>
#include <optional>

#include "core/definition.h"
#include "core/kind_table.h"
#include "core/wide.h"

namespace mpsgraph {
namespace {

const KindTable<AutocastRule>& autocast_rules() {
  using enum AutocastRule;
  static const KindTable<AutocastRule> table{
      // matmuls and convolutions
      {"convolution2d", low},
      {"convolution2d_data_gradient", low},
      {"convolution2d_weights_gradient", low},
      {"convolution3d", low},
      {"convolution3d_data_gradient", low},
      {"convolution3d_weights_gradient", low},
      {"depthwise_convolution2d", low},
      {"depthwise_convolution2d_data_gradient", low},
      {"depthwise_convolution2d_weights_gradient", low},
      {"depthwise_convolution3d", low},
      {"depthwise_convolution3d_data_gradient", low},
      {"depthwise_convolution3d_weights_gradient", low},
      {"convolution_transpose2d", low},
      {"convolution_transpose2d_data_gradient", low},
      {"convolution_transpose2d_weights_gradient", low},
      {"matrix_multiplication", low},
      {"scaled_dot_product_attention", low},
      // functions that amplify rounding errors
      {"exponent", float32},
      {"exponent_base2", float32},
      {"exponent_base10", float32},
      {"logarithm", float32},
      {"logarithm_base2", float32},
      {"logarithm_base10", float32},
      {"power", float32},
      {"reciprocal", float32},
      {"reciprocal_square_root", float32},
      {"reverse_square_root", float32},
      {"sinh", float32},
      {"cosh", float32},
      {"tan", float32},
      {"asin", float32},
      {"acos", float32},
      {"acosh", float32},
      {"atanh", float32},
      {"softmax", float32},
      {"softmax_gradient", float32},
      {"log_softmax", float32},
      {"log_softmax_gradient", float32},
      {"matrix_inverse", float32},
      // sums
      {"reduction_sum", float32},
      {"reduction_product", float32},
      {"mean", float32},
      {"variance", float32},
      {"cumulative_sum", float32},
      {"cumulative_product", float32},
      {"l2_norm_pooling4d", float32},
      {"l2_norm_pooling4d_gradient", float32},
      // losses, transforms, and optimizer steps
      {"softmax_cross_entropy", float32},
      {"softmax_cross_entropy_gradient", float32},
      {"fast_fourier_transform", float32},
      {"real_to_hermitean_fft", float32},
      {"sample_grid", float32},
      {"stochastic_gradient_descent", float32},
      {"adam", float32},
      {"adam_with_current_learning_rate", float32},
      // recurrent layers, whose rounding errors accumulate over the time steps
      {"single_gate_rnn", float32},
      {"single_gate_rnn_gradients", float32},
      {"lstm", float32},
      {"lstm_gradients", float32},
      {"gru", float32},
      {"gru_gradients", float32},
      // normalizations
      {"normalization", source},
      {"normalization_gradient", source},
      {"normalization_gamma_gradient", float32},
      {"normalization_beta_gradient", float32},
      // memory, types, control flow, and calls
      {"assign", variable},
      {"read", none},
      {"cast", none},
      {"reinterpret_cast", none},
      {"if", none},
      {"while", none},
      {"for", none},
      {"call", none},
      {"custom", float32},
  };
  return table;
}

bool takes_part(DType dtype) { return is_half(dtype) || dtype == DType::float32; }

// Whether a tensor adapts to the dtypes of the other operands. Variables, values read from variables, and scalar
// constants adapt, even after operations that only rearrange or repeat their elements, such as reshape and
// broadcast_to.
bool follows(const Tensor* tensor) {
  const Operation* operation = tensor->operation;
  if (operation->is({"read", "reshape", "expand_dims", "squeeze", "transpose", "broadcast_to"}))
    return follows(operation->input(0));
  return operation->is("variable") || (operation->is("constant") && tensor->type.shape == Shape(Dims{}));
}

// The common dtype of two floating-point dtypes: the dtype itself if both are equal, otherwise float32.
DType wider(DType a, DType b) { return a == b ? a : DType::float32; }

std::optional<DType> widest(const std::vector<Tensor*>& inputs, bool of_followers) {
  std::optional<DType> result;
  for (const Tensor* input : inputs)
    if (takes_part(input->dtype()) && follows(input) == of_followers)
      result = result ? wider(*result, input->dtype()) : input->dtype();
  return result;
}

// The dtype to which the operands are cast; nullopt if no cast is needed.
std::optional<DType> wanted_type(AutocastRule rule, const std::vector<Tensor*>& inputs, DType low) {
  switch (rule) {
    case AutocastRule::none: return std::nullopt;
    case AutocastRule::low: return low;
    case AutocastRule::float32:
    case AutocastRule::source: return DType::float32;
    case AutocastRule::variable:
      return takes_part(inputs[0]->dtype()) ? std::optional(inputs[0]->dtype()) : std::nullopt;
    case AutocastRule::widest: break;
  }
  const auto of_others = widest(inputs, false);
  return of_others ? of_others : widest(inputs, true);
}

// Checks that the operation accepts operands of this dtype. Throws the error that create() would throw, but before
// anything is added to the graph.
void check(const Graph& graph, const OperationDefinition& definition, const std::vector<Tensor*>& inputs,
           Attributes attributes, DType wanted) {
  const std::string where = graph.location().empty() ? std::string() : "; built at " + graph.location().text();
  std::vector<Tensor> as_cast;
  as_cast.reserve(inputs.size());
  std::vector<Tensor*> seen;
  for (const Tensor* input : inputs) {
    Tensor& copy = as_cast.emplace_back(*input);
    if (takes_part(input->dtype())) copy.type.dtype = wanted;
    seen.push_back(&copy);
  }
  attributes = complete_attributes(definition, std::move(attributes), where);
  settle_tensor_attributes(definition, seen, attributes, where);
  static const std::vector<std::unique_ptr<Block>> no_blocks;
  definition.infer(InferContext(definition, seen, attributes, no_blocks, where));
}

}  // namespace

std::string_view name(AutocastRule rule) {
  switch (rule) {
    case AutocastRule::low: return "low";
    case AutocastRule::float32: return "float32";
    case AutocastRule::source: return "source";
    case AutocastRule::widest: return "widest";
    case AutocastRule::variable: return "variable";
    case AutocastRule::none: return "none";
  }
  return "";
}

AutocastRule autocast_rule(const OperationDefinition& definition) {
  if (const AutocastRule* rule = autocast_rules().find(definition.name)) return *rule;
  return definition.max_inputs == 0 ? AutocastRule::none : AutocastRule::widest;
}

Operation* Autocast::create(Kind kind, std::vector<Tensor*> inputs, Attributes attributes, std::string_view name,
                            std::vector<std::unique_ptr<Block>> blocks) {
  const OperationDefinition& definition = definition_of(kind);
  const AutocastRule rule = autocast_rule(definition);
  // Operations with float64 or complex operands are left unchanged, because these dtypes were chosen explicitly.
  // Operands that are missing or belong to another graph are left unchanged too; graph_.create() rejects them.
  const bool plain =
      blocks.empty() && inputs.size() >= static_cast<size_t>(definition.min_inputs) &&
      std::all_of(inputs.begin(), inputs.end(), [&](const Tensor* input) {
        return input && &input->graph() == &graph_ && (!is_inexact(input->dtype()) || takes_part(input->dtype()));
      });
  const auto wanted = plain ? wanted_type(rule, inputs, low_) : std::nullopt;
  const auto is_cast = [&](const Tensor* t) { return wanted && takes_part(t->dtype()) && t->dtype() != *wanted; };
  if (std::none_of(inputs.begin(), inputs.end(), is_cast))
    return graph_.create(kind, std::move(inputs), std::move(attributes), name, std::move(blocks));
  check(graph_, definition, inputs, attributes, *wanted);
  const DType came = inputs[0]->dtype();
  for (Tensor*& input : inputs)
    if (is_cast(input)) input = cast(input, *wanted);
  const bool goes_back = rule == AutocastRule::source && came != DType::float32;
  Operation* operation = graph_.create(kind, std::move(inputs), std::move(attributes), goes_back ? "" : name);
  return goes_back ? graph_.create("cast", {operation->output()}, {{"dtype", came}}, name) : operation;
}

// Casts a tensor and remembers the cast for later uses. A variable is cast again for each use, because the variable may
// be assigned between uses. A later pass merges equal casts of equal values.
Tensor* Autocast::cast(Tensor* tensor, DType dtype) {
  if (tensor->operation->is("variable")) return graph_.add("cast", {tensor}, {{"dtype", dtype}});
  std::vector<Tensor*>& made = casts_[tensor];
  for (Tensor* one : made)
    if (one->dtype() == dtype && one->operation->parent->encloses(&graph_.current_block())) return one;
  return made.emplace_back(graph_.add("cast", {tensor}, {{"dtype", dtype}}));
}

}  // namespace mpsgraph
