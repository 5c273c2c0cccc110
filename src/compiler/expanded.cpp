// Specialized programs for exporters, which lower them outside the library.
#include "compiler/expanded.h"

namespace mpsgraph::compiler {
namespace {

// Throws the error for a program that cannot be exported, naming the first operation that depends on run-time values.
[[noreturn]] void refuse_rest(const Rest& rest) {
  for (const auto& operation : rest.graph->root().operations) {
    if (operation->is("placeholder") || operation->is("variable") || operation->is("constant")) continue;
    throw UnsupportedError(
        cat("[", operation->kind(), "] the shape or the attributes of '", operation->name,
            "' depend on values that are only known at run time; an exported program must be able to ",
            "infer all sizes from the shapes of its feeds", operation->where()));
  }
  throw UnsupportedError(
      "shapes depend on values that are only known at run time; an exported program must be able to infer all sizes "
      "from the shapes of its feeds");
}

}  // namespace

Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                 const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations) {
  Program program = specialize(graph, feeds, targets, target_operations);
  if (program.rest) refuse_rest(*program.rest);
  run_passes(program, {.passes = {OptionalPass::prune}}, {});
  return program;
}

}  // namespace mpsgraph::compiler
