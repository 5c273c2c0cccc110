// Quantization: the tensors of a graph that can become 8-bit integers, and how integers represent their values.
// runtime/inference.h builds the quantized graph; the caller determines the ranges by calibration.
#pragma once

#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// How integers represent a tensor: value = (integer - zero_point) * scale.
struct Quantized {
  double scale = 1;
  int64_t zero_point = 0;
  DType dtype = DType::uint8;
};

// Returns the floating-point tensors that are worth quantizing, among those that `outputs` depend on, in creation
// order. These are the inputs of convolutions and matmuls with constant weights that the integer kernels support
// (channels last, one group, numbers of channels divisible by four), and the tensors that are added to the results of
// these operations.
MPSGRAPH_API std::vector<Tensor*> tensors_to_quantize(const Graph& graph, const std::vector<Tensor*>& outputs);

}  // namespace mpsgraph::compiler
