// Programs that are lowered outside of the library.
#include "compiler/expanded.h"

namespace mpsgraph::compiler {
namespace {

// What keeps a program from being one: the first operation that waits for values.
[[noreturn]] void refuse_rest(const Rest& rest) {
  for (const auto& operation : rest.graph->root().operations) {
    if (operation->is("placeholder") || operation->is("variable") || operation->is("constant")) continue;
    throw UnsupportedError(cat("[", operation->kind(), "] '", operation->name,
                               "' needs values of the run to know its shape or its attributes", operation->where(),
                               ": here all sizes must follow from those of the feeds"));
  }
  throw UnsupportedError("shapes depend on values of the run: here all sizes must follow from those of the feeds");
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
