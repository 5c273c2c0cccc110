// Indices of non-zero elements.
//
// The program is compiled for a count that an earlier run determined (compiler::Rest), so all shapes are known and
// MPSGraph's nonZeroIndices, whose result shape depends on values, is not needed. The k-th non-zero element writes its
// position into row k. Rows beyond the count remain -1, and elements beyond the last row are dropped.
#include "backends/metal/complex.h"
#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

MPSGraphTensor* is_not_zero(const Lowering& l) {
  const Steps s(l);
  if (l.dtype() == DType::boolean) return l.input();
  if (!is_complex(l.dtype())) return s.differ(l.input(), l.scalar(0, l.dtype()));
  const Parts parts = parts_of(l, l.input());
  return either(parts.re != 0, parts.im != 0).tensor();
}

GraphTensors lower_non_zero_indices(Lowering& l) {
  const Steps s(l);
  const int64_t elements = l.type().shape.elements(), rows = l.result_dims()[0];
  MPSGraphTensor* counts = s.reshape(is_not_zero(l), {elements});
  MPSGraphTensor* number = [l.graph() cumulativeSumWithTensor:s.cast(counts, DType::int32)
                                                         axis:0
                                                    exclusive:YES
                                                      reverse:NO
                                                         name:nil];
  // Positions are counted from 1, because 0 marks the rows that the scatter does not write.
  MPSGraphTensor* counted = s.add(s.coordinate(0, {elements}), l.ints({1}));
  MPSGraphTensor* places = moved(l, DType::int32, counted, [&](MPSGraphTensor* part) {
    return [l.graph() scatterAlongAxis:0
                        withDataTensor:l.filled(0, {DType::float32, Shape(Dims{rows})})
                         updatesTensor:part
                         indicesTensor:s.select(counts, number, l.ints({-1}))
                                  mode:MPSGraphScatterModeSet
                                  name:nil];
  });
  places = s.subtract(places, l.ints({1}));
  MPSGraphTensor* is_row = s.less(l.ints({-1}), places);
  GraphTensors columns;
  for (int64_t axis = 0; axis < l.rank(); ++axis) {
    MPSGraphTensor* coordinates = s.reshape(s.coordinate(axis, l.dims()), {elements});
    MPSGraphTensor* column = s.select(is_row, moved_along(l, DType::int32, coordinates, places, 0), l.ints({-1}));
    columns.push_back(s.reshape(column, {rows, 1}));
  }
  return {columns.size() == 1 ? columns[0] : s.concat(columns, 1)};
}

}  // namespace

const Lowerings non_zero_lowerings("non_zero", [] { define_lowering("non_zero_indices", lower_non_zero_indices); });

}  // namespace mpsgraph::metal
