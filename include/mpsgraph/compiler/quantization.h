// Which of a graph's tensors may become 8-bit integers, and how integers stand for them. runtime/inference.h makes such
// a graph; ranges come from calibration, by the caller.
#pragma once

#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// How integers stand for a tensor: value = (integer - zero_point) * scale.
struct Quantized {
  double scale = 1;
  int64_t zero_point = 0;
  DType dtype = DType::uint8;
};

// The float tensors that outputs depend on and that are worth being integers: sources of convolutions and products with
// constant weights that kernels can take (channels last, one group, channels by fours), and what is added to their
// results. In creation order.
MPSGRAPH_API std::vector<Tensor*> tensors_to_quantize(const Graph& graph, const std::vector<Tensor*>& outputs);

}  // namespace mpsgraph::compiler
