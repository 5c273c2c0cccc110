// Greedy suppression of overlapping boxes.
//
// MPSGraph's nonMaximumSuppression requires macOS 14, and Apple does not document its results. Here, a loop visits the
// candidates in descending order of score; each candidate that has not been removed removes the later candidates that
// it overlaps. The candidates are the (box, class) pairs of an image. The loop has one iteration per candidate; each
// iteration processes all images at once, and compares the current candidate of an image with all later candidates of
// this image at once.
#include "backends/metal/formula.h"
#include "backends/metal/indexing.h"
#include "backends/metal/order.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

using T = MPSGraphTensor*;

// Edges of boxes, one element per box: each tensor has the shape [images, pairs].
struct Edges {
  Term top, left, bottom, right;
  Term area() const { return (bottom - top) * (right - left); }
};

Term least(const Term& a, const Term& b) { return select(a < b, a, b); }
Term most(const Term& a, const Term& b) { return select(a > b, a, b); }

// Split boxes [images, pairs, 4] into their four edges [images, pairs]. The coordinates may be (y, x) or (x, y),
// because the overlap of two boxes is the same either way.
Edges edges_of(const Lowering& l, T boxes) {
  const Dims dims = dims_of(boxes.shape);
  const auto coordinate = [&](int64_t i) {
    return Term(l, l.reshape(Steps(l).slice(boxes, 2, i, 1), {dims[0], dims[1]}));
  };
  const Term a = coordinate(0), b = coordinate(1), c = coordinate(2), d = coordinate(3);
  if (l.attributes().string("coordinate_mode").starts_with("centers"))
    return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
  return {least(a, c), least(b, d), most(a, c), most(b, d)};
}

Term overlap(const Edges& a, const Edges& b) {
  const Term height = least(a.bottom, b.bottom) - most(a.top, b.top);
  const Term width = least(a.right, b.right) - most(a.left, b.left);
  const Term shared = height * width, either = a.area() + b.area() - shared;
  const Term is_some = both(both(height > 0, width > 0), either > 0);
  return select(is_some, shared / select(is_some, either, 1), 0);
}

// Map MPSGraph's type back to int32, int64, or float32.
DType dtype_of(T x) {
  return x.dataType == MPSDataTypeInt32 ? DType::int32 : x.dataType == MPSDataTypeInt64 ? DType::int64 : DType::float32;
}

// Return element `index` of each row.
Term picked(const Lowering& l, const Term& rows, T index) {
  return rows.with(moved(l, dtype_of(rows.tensor()), rows.tensor(), [&](T x) {
    return [l.graph() gatherWithUpdatesTensor:x indicesTensor:index axis:1 batchDimensions:0 name:nil];
  }));
}

GraphTensors lower_non_maximum_suppression(Lowering& l) {
  const Steps s(l);
  const Attributes& a = l.attributes();
  const int64_t images = l.dims(1)[0], boxes = l.dims(1)[1], classes = l.dims(1)[2], pairs = boxes * classes;
  const Dims rows{images, pairs};
  const bool per_class = a.boolean("per_class_suppression"), indexed = l.count() == 3;
  const auto kind_of = [&] {
    if (indexed) return s.reshape(signed_indices(l, l.input(2), l.dtype(2)), rows);
    return s.reshape(s.coordinate(2, {images, boxes, classes}), rows);
  };

  // Sort the pairs: candidates by descending score, grouped by class if suppression is per class.
  const Term scores(l, s.cast(s.reshape(l.input(1), rows), DType::float32));
  T const candidate = (scores > static_cast<float>(a.real("score_threshold"))).tensor();
  T const keys = s.flip_bits(order_key(l, scores.tensor(), DType::float32));
  T order = ascending_order(l, s.select(candidate, keys, l.ints({INT32_MAX})));
  T const kinds = per_class ? kind_of() : nil;
  const auto along = [&](T of_pairs, T places) { return moved_along(l, dtype_of(of_pairs), of_pairs, places, 1); };
  if (per_class && !indexed) order = along(order, ascending_order(l, along(kinds, order)));
  const auto in_order = [&](T of_pairs) { return along(of_pairs, order); };

  const Edges given =
      edges_of(l, s.reshape(s.broadcast(s.reshape(s.cast(l.input(0), DType::float32), {images, boxes, 1, 4}),
                                        {images, boxes, classes, 4}),
                            {images, pairs, 4}));
  const auto ordered = [&](const Term& edge) { return edge.with(in_order(edge.tensor())); };
  const Edges edges{ordered(given.top), ordered(given.left), ordered(given.bottom), ordered(given.right)};
  const Term kind(l, per_class ? in_order(kinds) : order), place(l, s.coordinate(1, rows));
  const double limit = static_cast<float>(a.real("iou_threshold"));

  const Lowering* const lowering = &l;
  const Edges* const all = &edges;
  const Term *const kind_in_order = &kind, *const place_in_order = &place;
  T left = [l.graph()
      forLoopWithLowerBound:l.bound_of(0)
                 upperBound:l.bound_of(pairs)
                       step:l.bound_of(1)
       initialBodyArguments:@[ in_order(s.cast(candidate, DType::int32)) ]
                       body:^NSArray<MPSGraphTensor*>*(T at, NSArray<MPSGraphTensor*>* around) {
                         const Term left(*lowering, around[0]);
                         T const index = lowering->reshape(lowering->cast(at, DType::int32), {1});
                         const auto one = [&](const Term& of_pairs) { return picked(*lowering, of_pairs, index); };
                         const Edges own{one(all->top), one(all->left), one(all->bottom), one(all->right)};
                         Term covered = both(overlap(own, *all) > limit, one(left) > 0);
                         covered = both(covered, *place_in_order > Term(*lowering, index));
                         if (per_class) covered = both(covered, *kind_in_order == one(*kind_in_order));
                         return @[ select(covered, 0, left).tensor() ];
                       }
                       name:l.name()][0];

  // Number the remaining pairs across all images, and move the numbers back to the original order of the pairs.
  T number = [l.graph() cumulativeSumWithTensor:s.reshape(left, {images * pairs})
                                           axis:0
                                      exclusive:YES
                                        reverse:NO
                                           name:nil];
  number = s.select(s.less(l.ints({0}), left), s.reshape(number, rows), l.ints({-1}));
  // Numbers start at 1, because 0 marks the positions that the scatter does not write.
  T placed = moved(l, DType::int32, s.add(number, l.ints({1})), [&](T part) {
    return [l.graph() scatterAlongAxis:1
                        withDataTensor:l.filled(0, {DType::float32, Shape(rows)})
                         updatesTensor:part
                         indicesTensor:order
                                  mode:MPSGraphScatterModeSet
                                  name:nil];
  });
  return {s.subtract(placed, l.ints({1}))};
}

}  // namespace

const Lowerings non_maximum_suppression_lowerings("non_maximum_suppression", [] {
  define_lowering("non_maximum_suppression", lower_non_maximum_suppression);
});

}  // namespace mpsgraph::metal
