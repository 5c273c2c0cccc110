// Where a graph's tensors become 8-bit integers: the places, and a copy of the graph with quantize and dequantize
// there.
//
// What is made is an ordinary graph in the operations of family quantization, which says the same on every device; the
// pass `quantize` makes integer kernels of it where there are some. Ranges come from calibration, by the caller.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// How integers represent a tensor: value = (integer - zero_point) * scale.
struct Quantized {
  double scale = 1;
  int64_t zero_point = 0;
  DType dtype = DType::uint8;
};

// The float tensors that outputs depend on and that are worth being integers: sources of convolutions and products with
// constant weights that kernels can take (channels last, one group, channels by fours), and what is added to their
// results. In creation order.
std::vector<Tensor*> tensors_to_quantize(const Graph& graph, const std::vector<Tensor*>& outputs);

// A copy of the graph in which these tensors, and the weights beside them, are integers. Weights are symmetric int8, by
// output channel or by one scale. The variables are those that the outputs need.
Program quantized(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                  const std::unordered_map<const Tensor*, Quantized>& tensors, bool per_channel);

}  // namespace mpsgraph::compiler
