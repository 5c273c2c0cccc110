// Preparing a graph for inference: known values become constants, and everything that follows from them is resolved.
//
//   variables without remaining assigns       -> constants with their current values
//   placeholders with given values            -> constants, and for `if`s on them, the chosen branch
//   dropout                                   -> its source
//   normalization by constants                -> weights and bias of the preceding convolution or matmul (absorb)
//   matmuls of rows looked up in a table      -> rows looked up in a product (project_lookups)
//   operations on constants                   -> constants of any size; quantized weights stay quantized
//   channels-first weights                    -> channels-last weights, as devices read them
// The result is an ordinary graph, which can be printed, saved, differentiated, and run on every device. Dynamic
// dimensions stay dynamic. optimize_for_inference is therefore not a pass of the pipeline, which requires static
// shapes.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/compiler/quantization.h"

namespace mpsgraph::compiler {

using KnownValues = std::unordered_map<const Tensor*, ConstantPtr>;  // values of variables and placeholders

// Returns the graph, its placeholders (the placeholders in `inputs` that are not known, even if unused), its outputs,
// and the remaining variables. `source_variables` are the corresponding variables of the source graph. Throws
// GraphError if an output needs a placeholder that is neither known nor among the inputs.
Program optimize_for_inference(const Graph& graph, const std::vector<Tensor*>& inputs,
                               const std::vector<Tensor*>& outputs, const KnownValues& known);

// Replaces matmuls between rows of a constant table and constant weights with lookups in a precomputed product.
void project_lookups(Program&);

// Returns a copy of the graph in which the tensors in `tensors`, and the constant weights by which they are multiplied,
// are quantized to integers. Weights become symmetric int8, with one scale per output channel or a single scale. The
// returned program holds the variables that the outputs need.
Program quantized(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                  const std::unordered_map<const Tensor*, Quantized>& tensors, bool per_channel);

}  // namespace mpsgraph::compiler
