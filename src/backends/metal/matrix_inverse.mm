// Matrix inverses, in float32.
#include "backends/metal/formula.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_matrix_inverse(Lowering& l) {
  const int64_t n = l.dims().back();
  constexpr int64_t most = 1024;
  if (n > most)
    l.unsupported(cat("MPSGraph aborts the process for inverses of more than ", most, " rows, got ", n,
                      " (pytorch/pytorch#138200); use device=\"cpu\""));
  const bool half = l.dtype() != DType::float32;
  const Term x = half ? Term::input(l).cast(DType::float32) : Term::input(l);
  const Term inverse = x.with([l.graph() inverseOfTensor:x.tensor() name:l.name()]);
  return half ? inverse.cast(l.dtype()) : inverse;
}

}  // namespace

const Lowerings matrix_inverse_lowerings("matrix_inverse",
                                         [] { define_lowering("matrix_inverse", lower_matrix_inverse); });

}  // namespace mpsgraph::metal
