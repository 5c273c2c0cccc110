// The band around the diagonal of a matrix.
//
// Apple does not document which dtypes bandPart accepts, so it is used only for floats. For other dtypes, a mask
// selects the band.
#include <algorithm>

#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_band_part(Lowering& l) {
  const Dims& dims = l.dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  // Clamp the numbers of diagonals to the matrix size, so that they fit any integer type; -1 keeps all diagonals.
  const int64_t lower = std::min(l.attributes().integer("num_lower"), rows);
  const int64_t upper = std::min(l.attributes().integer("num_upper"), columns);
  if (is_float(l.dtype()))
    return {[l.graph() bandPartWithTensor:l.input() numLower:lower numUpper:upper name:l.name()]};
  const Term ones(l, l.filled(1, {DType::float32, Shape(Dims{rows, columns})}));
  const Term mask = ones.with([l.graph() bandPartWithTensor:ones.tensor() numLower:lower numUpper:upper name:nil]) != 0;
  if (!is_complex(l.dtype())) return select(mask, Term::input(l), Term(l, l.scalar(0, l.dtype())));
  const Parts parts = parts_of(l, l.input());
  return {complex_tensor(l, {select(mask, parts.re, 0), select(mask, parts.im, 0)})};
}

}  // namespace

const Lowerings linear_algebra_lowerings("linear_algebra", [] { define_lowering("band_part", lower_band_part); });

}  // namespace mpsgraph::metal
