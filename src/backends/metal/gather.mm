// Gathers, their gradient, and one-hot encoding.
//
// Apple documents the result of an out-of-range index only for gatherAlongAxis, where it is zero, as required here. For
// the other gathers, out-of-range indices are replaced with valid ones and the values gathered for them are set to
// zero, unless all indices are known to be valid.
#include "backends/metal/complex.h"
#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/known_values.h"

namespace mpsgraph::metal {
namespace {

// Replace gathered values with zero where the index was out of range. `inside` is reshaped to the shape `mask` so that
// it broadcasts to the result.
MPSGraphTensor* masked(const Lowering& l, MPSGraphTensor* picked, const Picks& picks, const Dims& mask, DType dtype) {
  if (!picks.inside) return picked;
  const Steps s(l);
  return s.select(s.reshape(picks.inside, mask), picked, l.scalar(0, dtype));
}

GraphTensors lower_gather(Lowering& l) {
  const int64_t axis = l.axis(), batch = l.attributes().integer("batch_dimensions");
  const Dims &dims = l.dims(), &indices = l.dims(1);
  const Picks p = picks(l, l.input(1), l.dtype(1), dims[axis], constant_value(l.operation.inputs[1]));
  // Axes of the gather's result, in order: batch axes, other axes before the gathered axis, index axes, axes after the
  // gathered axis.
  Dims mask(indices.begin(), indices.begin() + batch);
  mask.insert(mask.end(), axis - batch, 1);
  mask.insert(mask.end(), indices.begin() + batch, indices.end());
  mask.insert(mask.end(), dims.size() - axis - 1, 1);
  return {moved(l, l.dtype(), l.input(0), [&](MPSGraphTensor* x) {
    MPSGraphTensor* picked = [l.graph() gatherWithUpdatesTensor:x
                                                  indicesTensor:p.index
                                                           axis:static_cast<NSUInteger>(axis)
                                                batchDimensions:static_cast<NSUInteger>(batch)
                                                           name:l.name()];
    const Dims& result = l.result_dims();
    return masked(l, l.reshape(picked, result.empty() ? Dims{1} : result), p, mask, moving_type(l.dtype()));
  })};
}

// The gradient of a gather sums the incoming rows that were gathered from the same position. Rows gathered by an
// out-of-range index count as zero.
GraphTensors lower_gather_gradient(Lowering& l) {
  const Steps s(l);
  const Dims &dims = l.result_dims(), &indices = l.dims(1);
  const int64_t given = l.attributes().integer("axis"), batch = l.attributes().integer("batch_dimensions");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(dims.size()) : given;
  const int64_t batches = element_count(Dims(dims.begin(), dims.begin() + batch));
  const int64_t outer = element_count(Dims(dims.begin() + batch, dims.begin() + axis));
  const int64_t inner = element_count(Dims(dims.begin() + axis + 1, dims.end()));
  const int64_t n = dims[axis], count = element_count(Dims(indices.begin() + batch, indices.end()));
  const Picks p = flat_picks(l, l.input(1), l.dtype(1), batches, count, {n}, constant_value(l.operation.inputs[1]));
  // The gradient scatters along one axis, so the batch axes are merged with the gathered axis. Other axes between the
  // batch axes and the gathered axis are first moved after the gathered axis.
  const bool between = batches > 1 && outer > 1;
  const Lanes lanes(batches > 1 ? Dims{1, batches * n, outer * inner} : Dims{outer, n, inner}, 1);
  const DType as = summing_type(l.dtype());
  return {added(l, l.dtype(), l.input(0), batches * count, [&](MPSGraphTensor* incoming) {
    if (between) incoming = s.transpose(s.reshape(incoming, {batches, outer, count, inner}), {0, 2, 1, 3});
    incoming = s.reshape(incoming, lanes.dims(batches * count));
    incoming = masked(l, incoming, p, {batches * count, 1}, as);
    MPSGraphTensor* sum = [l.graph() scatterWithDataTensor:l.filled(0, {as, Shape(lanes.dims())})
                                             updatesTensor:incoming
                                             indicesTensor:p.index
                                                      axis:1
                                                      mode:MPSGraphScatterModeAdd
                                                      name:l.name()];
    if (between) sum = s.transpose(s.reshape(sum, {batches, n, outer, inner}), {0, 2, 1, 3});
    return s.reshape(sum, dims);
  })};
}

// gather_nd copies the slices that index vectors select. The indexed axes are flattened into one, along which a plain
// gather is used, because Apple does not document what MPSGraph's gatherND does for indices out of range.
GraphTensors lower_gather_nd(Lowering& l) {
  const Steps s(l);
  const Dims &dims = l.dims(), &indices = l.dims(1);
  if (element_count(dims) == 0) return {l.filled(0, l.result_type())};  // every index is out of range
  const int64_t batch = l.attributes().integer("batch_dimensions"), depth = indices.back();
  const Dims picked_axes(dims.begin() + batch, dims.begin() + batch + depth);
  const int64_t batches = element_count(Dims(dims.begin(), dims.begin() + batch));
  const int64_t rest = element_count(Dims(dims.begin() + batch + depth, dims.end()));
  const int64_t vectors = element_count(Dims(indices.begin() + batch, indices.end() - 1));
  const Picks p = flat_picks(l, depth == 0 ? nil : l.input(1), l.dtype(1), batches, vectors, picked_axes,
                             constant_value(l.operation.inputs[1]));
  return {moved(l, l.dtype(), l.input(0), [&](MPSGraphTensor* x) {
    MPSGraphTensor* picked =
        [l.graph() gatherWithUpdatesTensor:s.reshape(x, {batches * element_count(picked_axes), rest})
                             indicesTensor:p.index
                                      axis:0
                           batchDimensions:0
                                      name:l.name()];
    return masked(l, picked, p, {batches * vectors, 1}, moving_type(l.dtype()));
  })};
}

GraphTensors lower_gather_along_axis(Lowering& l) {
  const Steps s(l);
  const Lanes from(l.dims(), l.axis()), to(l.dims(1), l.axis());
  MPSGraphTensor* index = s.reshape(along_indices(l, l.input(1), l.dtype(1)), to.short_dims());
  return {moved_along(l, l.dtype(), s.reshape(l.input(0), from.short_dims()), index, 1)};
}

// One-hot encoding compares indices with positions, because Apple does not document the result for an out-of-range
// index.
GraphTensors lower_one_hot(Lowering& l) {
  const Steps s(l);
  const Attributes& a = l.attributes();
  const Dims& dims = l.result_dims();
  const int64_t given = a.integer("axis"), axis = given < 0 ? given + static_cast<int64_t>(dims.size()) : given;
  Dims beside = dims, classes(dims.size(), 1);
  beside[axis] = 1;
  classes[axis] = dims[axis];
  MPSGraphTensor* index = s.reshape(signed_indices(l, l.input(), l.dtype()), beside);
  const DType wide = index.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
  MPSGraphTensor* is_on = s.equal(s.cast(s.coordinate(axis, classes), wide), index);
  const DType dtype = a.dtype("dtype");
  const DType as = is_complex(dtype) ? DType::float32 : dtype;
  MPSGraphTensor* rows = s.select(is_on, s.element("on_value", as), s.element("off_value", as));
  return {as == dtype ? rows : complex_tensor(l, parts_of(l, rows))};
}

}  // namespace

const Lowerings gather_lowerings("gather", [] {
  define_lowering("gather", lower_gather);
  define_lowering("gather_gradient", lower_gather_gradient);
  define_lowering("gather_nd", lower_gather_nd);
  define_lowering("gather_along_axis", lower_gather_along_axis);
  define_lowering("one_hot", lower_one_hot);
});

}  // namespace mpsgraph::metal
