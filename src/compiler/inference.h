// Preparing a graph for inference: known values become constants, and their consequences are resolved.
//
//   variables without remaining assigns       -> constants of their current values
//   placeholders with given values            -> constants, and `if`s on them the chosen branch
//   dropout                                   -> its source
//   normalization by constants                -> weights and bias of the preceding convolution or matmul (absorb)
//   matmuls of rows looked up in a table      -> rows looked up in a product (project_lookups)
//   operations on constants                   -> constants of any size; quantized weights stay
//   channels-first weights                    -> channels-last weights, as devices read them
// The result is an ordinary graph, which can be printed, saved, differentiated, and run on every device. Dynamic
// dimensions stay dynamic, which is why this is not a pass of the pipeline.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/compiler/quantization.h"

namespace mpsgraph::compiler {

using KnownValues = std::unordered_map<const Tensor*, ConstantPtr>;  // values of variables and placeholders

// Returns the graph, its placeholders (those of `inputs` that are not known; all are kept), its outputs, and the
// remaining variables. `source_variables` are the corresponding variables of the source graph. Throws GraphError if an
// output needs a placeholder that is neither known nor among the inputs.
Program optimize_for_inference(const Graph& graph, const std::vector<Tensor*>& inputs,
                               const std::vector<Tensor*>& outputs, const KnownValues& known);

// Replaces matmuls of rows of constant tables with constant weights by lookups in precomputed products.
void project_lookups(Program&);

// A copy of the graph in which these tensors, and the weights they are multiplied with, are integers. Weights are
// symmetric int8, with a scale per output channel or a single one. The variables are those that the outputs need.
Program quantized(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                  const std::unordered_map<const Tensor*, Quantized>& tensors, bool per_channel);

}  // namespace mpsgraph::compiler
