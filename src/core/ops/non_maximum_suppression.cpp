// Operation family non_maximum_suppression: selects boxes so that no two selected boxes overlap too much.
//
//   non_maximum_suppression(boxes [n, b, 4], scores [n, b, k][, class_indices [n, b]]) -> int32 [n, b, k]
//
// For each image, (box, class) pairs with a score above score_threshold are selected in order of decreasing score. A
// pair is skipped if its box overlaps an already selected box with an intersection over union above iou_threshold; with
// per_class_suppression, only boxes of the same class are compared. The result holds the rank of each pair among the
// selected pairs, or -1 if the pair is not selected. The list of selected pairs itself has a data-dependent length; the
// Python interface derives it from this result.
#include "core/ops/primitive.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_kept_boxes(const InferContext& c) {
  const std::string& mode = c.attributes.string("coordinate_mode");
  if (mode != "corners_height_first" && mode != "corners_width_first" && mode != "centers_height_first" &&
      mode != "centers_width_first")
    c.graph_error(cat("coordinate_mode must be corners_height_first, corners_width_first, centers_height_first or ",
                      "centers_width_first, got '", mode, "'"));
  c.require_float(0);
  c.require_same_dtype(0, 2);
  c.require_rank(0, 3);
  c.require_rank(1, 3);
  const Shape boxes = c.shape(0).ranked() ? c.shape(0) : Shape{-1, -1, -1};
  Shape scores = c.shape(1).ranked() ? c.shape(1) : Shape{-1, -1, -1};
  if (!compatible(boxes, Shape{-1, -1, 4}))
    c.shape_error(cat("boxes must have four coordinates along the last axis, got ", boxes));
  if (!compatible(scores, Shape{boxes[0], boxes[1], -1}))
    c.shape_error(
        cat("scores must have the same first two axes (images and boxes) as boxes ", boxes, ", got ", scores));
  scores = merge(scores, Shape{boxes[0], boxes[1], -1});
  if (c.count() == 3) {
    if (!is_integer(c.dtype(2))) c.dtype_error(cat("class_indices must be integers, got ", c.dtype(2)));
    if (!compatible(c.shape(2), Shape{scores[0], scores[1]}) || !compatible(scores, Shape{-1, -1, 1}))
      c.shape_error(cat("class_indices must have the first two axes of scores, and scores must have one score per box,",
                        " got class_indices ", c.shape(2), " and scores ", scores));
    scores = merge(scores, Shape{-1, -1, 1});
  }
  return {{DType::int32, scores}};
}

}  // namespace

const Family non_maximum_suppression_family("non_maximum_suppression", [] {
  OperationDefinition d = primitive(
      "non_maximum_suppression", {2, 3},
      {required("iou_threshold", AttributeKind::real), required("score_threshold", AttributeKind::real),
       optional("per_class_suppression", false), optional("coordinate_mode", std::string("corners_height_first"))},
      infer_kept_boxes, nullptr);
  d.gradient_is_zero = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
