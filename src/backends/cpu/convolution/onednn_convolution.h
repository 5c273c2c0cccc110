// Convolution and its gradients with oneDNN.
#pragma once

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

// A candidate for convolutions and their gradients in float32 and, where oneDNN supports it, bfloat16.
Offer onednn_convolution(Lowering& lowering);

}  // namespace mpsgraph::cpu
