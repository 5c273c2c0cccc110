// Operations on shapes: reshaping, broadcasting, concatenating, splitting, and tiling.
#include "backends/metal/complex.h"
#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_reshape(Lowering& l) { return {l.reshape(l.input(), l.result_dims())}; }

GraphTensors lower_transpose(Lowering& l) {
  if (l.rank() == 0) return {l.input()};
  return {by_parts(l, {l.input()}, [&](const GraphTensors& in) {
    return [l.graph() transposeTensor:in[0] permutation:numbers(l.axes("permutation")) name:l.name()];
  })};
}

GraphTensors lower_broadcast_to(Lowering& l) {
  return {by_parts(l, {l.input()}, [&](const GraphTensors& in) {
    return [l.graph() broadcastTensor:in[0] toShape:shape_of(l.result_dims()) name:l.name()];
  })};
}

GraphTensors all_inputs(const Lowering& l) {
  GraphTensors tensors;
  for (size_t i = 0; i < l.count(); ++i) tensors.push_back(l.input(i));
  return tensors;
}

NSArray<MPSGraphTensor*>* listed(const GraphTensors& tensors) {
  NSMutableArray<MPSGraphTensor*>* list = [NSMutableArray array];
  for (MPSGraphTensor* tensor : tensors) [list addObject:tensor];
  return list;
}

GraphTensors lower_concat(Lowering& l) {
  if (l.count() == 1) return {l.input()};
  return {by_parts(l, all_inputs(l), [&](const GraphTensors& in) {
    return [l.graph() concatTensors:listed(in)
                          dimension:l.axis()
                         interleave:l.attributes().boolean("interleave")
                               name:l.name()];
  })};
}

GraphTensors lower_stack(Lowering& l) {
  const auto rank = static_cast<int64_t>(l.result_dims().size());
  const int64_t axis = l.attributes().integer("axis");
  return {by_parts(l, all_inputs(l), [&](const GraphTensors& in) {
    return [l.graph() stackTensors:listed(in) axis:axis < 0 ? axis + rank : axis name:l.name()];
  })};
}

GraphTensors split(const Lowering& l, MPSGraphTensor* tensor) {
  NSArray<MPSGraphTensor*>* parts = [l.graph() splitTensor:tensor
                                                splitSizes:numbers(l.attributes().integers("sizes"))
                                                      axis:l.axis()
                                                      name:l.name()];
  GraphTensors result;
  for (MPSGraphTensor* part in parts) result.push_back(part);
  return result;
}

GraphTensors lower_split(Lowering& l) {
  if (l.attributes().integers("sizes").size() == 1) return {l.input()};
  if (!is_complex(l.dtype())) return split(l, l.input());
  const Parts whole = parts_of(l, l.input());
  const GraphTensors reals = split(l, whole.re.tensor()), imaginaries = split(l, whole.im.tensor());
  GraphTensors result;
  for (size_t i = 0; i < reals.size(); ++i) result.push_back(complex_tensor(l, {{l, reals[i]}, {l, imaginaries[i]}}));
  return result;
}

GraphTensors lower_tile(Lowering& l) {
  if (l.rank() == 0) return {l.input()};
  return {by_parts(l, {l.input()}, [&](const GraphTensors& in) {
    return [l.graph() tileTensor:in[0] withMultiplier:numbers(l.attributes().integers("multiplier")) name:l.name()];
  })};
}

GraphTensors lower_shape_of(Lowering& l) { return {l.ints(l.dims())}; }

GraphTensors lower_coordinate_along_axis(Lowering& l) {
  const Dims& dims = l.result_dims();
  const int64_t axis = l.attributes().integer("axis");
  return {[l.graph() coordinateAlongAxis:axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis
                               withShape:shape_of(dims)
                                    name:l.name()]};
}

GraphTensors lower_reverse(Lowering& l) {
  const bool every = l.attributes().boolean("all_axes");
  if (l.rank() == 0 || (!every && l.attributes().integers("axes").empty())) return {l.input()};
  Ints axes = l.axes();
  if (every)
    for (axes.clear(); axes.size() < l.dims().size();) axes.push_back(static_cast<int64_t>(axes.size()));
  return {by_parts(l, {l.input()}, [&](const GraphTensors& in) {
    return [l.graph() reverseTensor:in[0] axes:numbers(axes) name:l.name()];
  })};
}

}  // namespace

const Lowerings shape_lowerings("shape", [] {
  for (const Kind kind : Kinds{"reshape", "expand_dims", "squeeze", "flatten2d"}) define_lowering(kind, lower_reshape);
  define_lowering("transpose", lower_transpose);
  define_lowering("broadcast_to", lower_broadcast_to);
  define_lowering("concat", lower_concat);
  define_lowering("stack", lower_stack);
  define_lowering("split", lower_split);
  define_lowering("tile", lower_tile);
  define_lowering("shape_of", lower_shape_of);
  define_lowering("coordinate_along_axis", lower_coordinate_along_axis);
  define_lowering("reverse", lower_reverse);
});

}  // namespace mpsgraph::metal
