// Packages' contents made ready for inference: compiler/inference.h with the values that variables have on a device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/package.h"

namespace mpsgraph::runtime {

// The same inputs, outputs and names in a graph of its own, with variables frozen to the values that they have on the
// device of `values` (their first ones without it). `known` gives values of placeholders, inputs or others, which are
// then no inputs any more. ShapeError, DTypeError when such a value does not fit.
PackageContents optimize_for_inference(const PackageContents& contents, DeviceGraph* values = nullptr,
                                       const std::vector<std::pair<Tensor*, ConstantPtr>>& known = {});

}  // namespace mpsgraph::runtime
