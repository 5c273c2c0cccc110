// Conversion of programs to graphs for code outside the library that lowers them, such as mpsgraph.jax.
#include "bindings/bindings.h"
#include "compiler/expanded.h"

namespace mpsgraph::bindings {

namespace {

py::dict expanded(const GraphObject& graph, const py::typing::Dict<Tensor, py::tuple>& feeds,
                  const Sequence<Tensor>& targets, const Sequence<Operation>& target_operations, bool keep_attention) {
  std::vector<std::pair<Tensor*, TensorType>> types;
  for (const auto& [tensor, type] : feeds) types.emplace_back(py::cast<Tensor*>(tensor), to_tensor_type(type));
  compiler::Program program = compiler::expanded(*graph, types, to_tensors(targets, "targets"),
                                                 to_operations(target_operations, "target operations"), keep_attention);
  const std::shared_ptr<Graph> made = std::move(program.graph);
  const py::object object = graph_object(made);
  py::dict result;
  result["graph"] = object;
  result["feeds"] = to_list(object, program.feeds);
  result["targets"] = to_list(object, program.targets);
  result["variables"] = to_list(object, program.variables);
  result["source_variables"] = to_list(graph, program.source_variables);
  return result;
}

}  // namespace

void define_programs(Module& module) {
  module.def("expanded", &expanded, py::arg("graph"), py::arg("feeds"), py::arg("targets"),
             py::arg("target_operations") = py::tuple(), py::kw_only(), py::arg("keep_attention") = false,
             "Extract the operations that targets depend on into a new graph with static shapes and without "
             "composite operations, except softmax cross-entropy and, if keep_attention, half-precision attention "
             "without a mask. `feeds` are placeholders with (dtype, shape). Return the graph, its feeds, targets, and "
             "variables, and source_variables, the matching variables of the original graph. Raises "
             "UnsupportedError if shapes depend on values.");
  module.def(
      "history_depth", [](const Tensor& tensor) { return tensor.type.history; }, py::arg("tensor"),
      "Return the number of enclosing loops that keep the tensor's values for a gradient, 0 for an "
      "ordinary tensor.");
}

}  // namespace mpsgraph::bindings
