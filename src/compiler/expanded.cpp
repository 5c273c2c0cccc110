// Specialized programs for exporters, which lower them outside the library.
#include "compiler/expanded.h"

namespace mpsgraph::compiler {
namespace {

// Throws the error for a program that cannot be exported, naming the first operation that depends on run-time values.
[[noreturn]] void refuse_rest(const Rest& rest) {
  for (const auto& operation : rest.graph->root().operations) {
    if (operation->is({"placeholder", "variable", "constant"})) continue;
    throw UnsupportedError(
        cat("[", operation->kind(), "] the shape or the attributes of '", operation->name,
            "' depend on values that are only known at run time; an exported program must be able to ",
            "infer all sizes from the shapes of its feeds", operation->where()));
  }
  throw UnsupportedError(
      "shapes depend on values that are only known at run time; an exported program must be able to infer all sizes "
      "from the shapes of its feeds");
}

bool keeps_losses(const Operation& operation) {
  return operation.is("softmax_cross_entropy") || operation.is("softmax_cross_entropy_gradient");
}

// Attention, and its gradient, that libraries such as cuDNN compute without storing the scores: half precision, rank 4,
// at most 128 features per head, and neither a mask operand nor dropout.
bool is_plain_half_attention(const Operation& operation) {
  const bool gradient = operation.is("scaled_dot_product_attention_gradient");
  if (!gradient && !operation.is("scaled_dot_product_attention")) return false;
  const size_t own = gradient ? 6 : 3;  // operands without a mask and a random state
  if (operation.inputs.size() != own || size_of(operation.input(0)->dtype()) != 2) return false;
  for (size_t i = 0; i < 3; ++i)
    if (operation.input(i)->shape().rank() != 4) return false;
  const Dims &query = operation.input(0)->shape().dims(), &key = operation.input(1)->shape().dims();
  const int64_t features = query[3];
  return operation.input(2)->shape().dims() == key && query[0] == key[0] && key[1] > 0 && query[1] % key[1] == 0 &&
         (key[1] == query[1] || key[1] == 1) && key[2] > 0 && features > 0 && features <= 128 && features % 8 == 0;
}

bool keeps_attention(const Operation& operation) {
  return keeps_losses(operation) || is_plain_half_attention(operation);
}

}  // namespace

Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                 const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations,
                 bool keep_attention) {
  Program program = specialize(graph, feeds, targets, target_operations);
  if (program.rest) refuse_rest(*program.rest);
  run_passes(program, {.passes = {OptionalPass::prune}, .keeps = keep_attention ? keeps_attention : keeps_losses}, {});
  return program;
}

}  // namespace mpsgraph::compiler
