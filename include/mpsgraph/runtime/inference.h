// Packages' contents made ready for inference: compiler/inference.h with the values that variables have on a device,
// and compiler/quantization.h.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "mpsgraph/compiler/quantization.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/package.h"

namespace mpsgraph::runtime {

// The same inputs, outputs and names in a graph of its own, with variables frozen to the values that they have on the
// device of `values` (their first ones without it). `known` gives values of placeholders, inputs or others, which are
// then no inputs any more. ShapeError, DTypeError when such a value does not fit.
MPSGRAPH_API PackageContents optimize_for_inference(const PackageContents& contents, DeviceGraph* values = nullptr,
                                                    const std::vector<std::pair<Tensor*, ConstantPtr>>& known = {});

// The same with 8-bit integers for those tensors (compiler/quantization.h, which also finds them) and for the weights
// beside them.
MPSGRAPH_API PackageContents quantized(const PackageContents& contents,
                                       const std::unordered_map<const Tensor*, compiler::Quantized>& tensors,
                                       bool per_channel);

}  // namespace mpsgraph::runtime
