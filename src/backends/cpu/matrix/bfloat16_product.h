// Matmuls of bfloat16 matrices with the inner loops of convolutions: a matmul is a convolution of images of one pixel
// with a filter of one tap, and the gradient of its right operand is that convolution's gradient with respect to the
// weights. Products are sums of pairs, in AMX registers, or in float32, depending on the processor.
#pragma once

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

// A candidate for matmuls of bfloat16 with a single right operand.
Offer bfloat16_product(Lowering& lowering);

}  // namespace mpsgraph::cpu
