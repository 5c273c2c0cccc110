// A graph made ready for inference: what it knows becomes constants, and what follows from that is settled.
//
//   variables that nothing assigns any more   -> constants of their present values
//   placeholders whose values are given       -> constants, and `if`s on them the branch that is taken
//   dropout                                   -> its source
//   normalization by constants                -> weights and bias of the convolution or product before it (absorb)
//   products of rows that are looked up       -> rows looked up in a product (project_lookups)
//   operations on constants                   -> constants, whatever their size; quantized weights stay
//   weights with channels in front            -> the same with channels last, as devices read them
// The result is an ordinary graph: it can be printed, saved, differentiated, run on every device. Dimensions that are
// not known stay so, which is why this is not a pass of the pipeline.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/compiler/quantization.h"

namespace mpsgraph::compiler {

using KnownValues = std::unordered_map<const Tensor*, ConstantPtr>;  // of variables and placeholders

// The graph, its placeholders (those of `inputs` that are not known, all are kept), outputs and the variables left.
// `source_variables` are those of the source that they stand for. GraphError when an output needs a placeholder that is
// neither known nor among the inputs.
Program optimize_for_inference(const Graph& graph, const std::vector<Tensor*>& inputs,
                               const std::vector<Tensor*>& outputs, const KnownValues& known);

// Products of rows of constant tables with constant weights, as rows of the tables' products.
void project_lookups(Program&);

// A copy of the graph in which these tensors, and the weights beside them, are integers. Weights are symmetric int8, by
// output channel or by one scale. The variables are those that the outputs need.
Program quantized(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                  const std::unordered_map<const Tensor*, Quantized>& tensors, bool per_channel);

}  // namespace mpsgraph::compiler
