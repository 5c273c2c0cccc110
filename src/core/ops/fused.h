// Parts of register_fused, in files of their own.
#pragma once

namespace mpsgraph::ops {

void register_fused_batch_normalization();

}  // namespace mpsgraph::ops
