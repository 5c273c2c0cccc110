// Conversion of padding policies to MPSNNPadding.
#pragma once

#include "backends/metal/frameworks.h"
#include "nngraph/padding.h"

namespace mpsgraph::metal {

id<MPSNNPadding> padding_of(const nngraph::PaddingPolicy& policy);

}  // namespace mpsgraph::metal
