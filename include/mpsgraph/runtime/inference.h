// Prepares packages for inference: folds the variables into constants (compiler/inference.h), with the values that they
// have on a device, and quantizes tensors (compiler/quantization.h).
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "mpsgraph/compiler/quantization.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/package.h"

namespace mpsgraph::runtime {

// Returns the same inputs, outputs, and names in a new graph in which variables are constants. The constants have the
// variables' values on the device of `values`, or the initial values if `values` is null. `known` gives values for
// placeholders, which are then no longer inputs. Throws ShapeError or DTypeError if such a value does not match the
// type of its placeholder.
MPSGRAPH_API PackageContents optimize_for_inference(const PackageContents& contents, DeviceGraph* values = nullptr,
                                                    const std::vector<std::pair<Tensor*, ConstantPtr>>& known = {});

// Returns the same contents with 8-bit integers for `tensors` and for the weights used with them. tensors_to_quantize()
// of compiler/quantization.h finds suitable tensors.
MPSGRAPH_API PackageContents quantized(const PackageContents& contents,
                                       const std::unordered_map<const Tensor*, compiler::Quantized>& tensors,
                                       bool per_channel);

}  // namespace mpsgraph::runtime
