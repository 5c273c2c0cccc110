// Optimization of a graph for inference: collects the known values, has the compiler fold them, and names the inputs
// and outputs of the result.
#include "mpsgraph/runtime/inference.h"

#include <algorithm>

#include "compiler/inference.h"
#include "compiler/rewrite.h"

namespace mpsgraph::runtime {
namespace {

void require_fits(const Tensor& placeholder, const ConstantData& value) {
  const TensorType given{value.dtype(), Shape(value.dims())};
  if (given.dtype != placeholder.type.dtype)
    throw DTypeError(cat("[optimize_for_inference] the value of placeholder '", placeholder.name(),
                         "' must have the placeholder's dtype ", placeholder.type.dtype, ", got ", given.dtype,
                         "; convert the value first"));
  if (!compatible(given.shape, placeholder.type.shape))
    throw ShapeError(cat("[optimize_for_inference] the value of placeholder '", placeholder.name(),
                         "' must have a shape that matches ", placeholder.type.shape, ", got ", given.shape));
}

std::vector<Tensor*> tensors_of(const NamedTensors& named) {
  std::vector<Tensor*> tensors;
  for (const auto& item : named) tensors.push_back(item.second);
  return tensors;
}

// Builds the contents of a package from an optimized program. Inputs, outputs, and parameters keep their names in
// `source`; inputs that have become constants are dropped.
PackageContents named(compiler::Program program, const PackageContents& source, const compiler::KnownValues& known) {
  PackageContents result;
  result.graph = std::move(program.graph);
  size_t next = 0;
  for (const auto& [name, tensor] : source.inputs)
    if (!known.count(tensor)) result.inputs.emplace_back(name, program.feeds[next++]);
  for (size_t i = 0; i < source.outputs.size(); ++i)
    result.outputs.emplace_back(source.outputs[i].first, program.targets[i]);
  for (size_t i = 0; i < program.variables.size(); ++i) {
    for (const auto& [name, tensor] : source.parameters)
      if (tensor == program.source_variables[i]) result.parameters.emplace_back(name, program.variables[i]);
  }
  return result;
}

}  // namespace

PackageContents optimize_for_inference(const PackageContents& contents, DeviceGraph* values,
                                       const std::vector<std::pair<Tensor*, ConstantPtr>>& known) {
  compiler::KnownValues all;
  for (const auto& [tensor, value] : known) {
    require_fits(*tensor, *value);
    all[tensor] = value;
  }
  std::vector<const Operation*> roots;
  for (const auto& output : contents.outputs) roots.push_back(output.second->operation);
  const std::vector<bool> needed = compiler::needed_by(*contents.graph, roots);
  std::vector<Tensor*> variables;
  for (Tensor* variable : contents.graph->variables())
    if (needed[static_cast<size_t>(variable->operation->id)]) variables.push_back(variable);
  const std::vector<ConstantPtr> current = values ? values->constant_values(variables) : std::vector<ConstantPtr>();
  for (size_t i = 0; i < variables.size(); ++i)
    all[variables[i]] = values ? current[i] : variables[i]->operation->attributes.data("value");
  compiler::Program program =
      compiler::optimize_for_inference(*contents.graph, tensors_of(contents.inputs), tensors_of(contents.outputs), all);
  return named(std::move(program), contents, all);
}

PackageContents quantized(const PackageContents& contents,
                          const std::unordered_map<const Tensor*, compiler::Quantized>& tensors, bool per_channel) {
  return named(compiler::quantized(*contents.graph, tensors_of(contents.inputs), tensors_of(contents.outputs), tensors,
                                   per_channel),
               contents, {});
}

}  // namespace mpsgraph::runtime
