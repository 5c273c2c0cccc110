// A product of matrices on oneDNN, with transposes as strides and bias, residual and activation as post-operations.
#pragma once

#include <memory>

#include "backends/cpu/onednn_kernel.h"

namespace mpsgraph::cpu {

// Null where oneDNN has no implementation; `take_reference`: nor its slow one.
std::unique_ptr<Kernel> onednn_product(Lowering& lowering, const Epilogue& epilogue, bool take_reference);

}  // namespace mpsgraph::cpu
