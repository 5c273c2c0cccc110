// Family non_maximum_suppression: which of many overlapping boxes are kept.
//
//   non_maximum_suppression(boxes [n, b, 4], scores [n, b, k][, class_indices [n, b]]) -> int32 [n, b, k]
// Of each image, pairs of a box and a class with a score above score_threshold are taken by falling score, unless their
// box overlaps one that was taken with an intersection over union above iou_threshold; with per_class_suppression only
// boxes of the same class count. The result says which place each pair has in the list of all that are taken, -1 if it
// is not. The list itself has a length that depends on values; the Python face makes it from this.
#include "core/ops/primitive.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_kept_boxes(const InferContext& c) {
  const std::string& mode = c.attributes.string("coordinate_mode");
  if (mode != "corners_height_first" && mode != "corners_width_first" && mode != "centers_height_first" &&
      mode != "centers_width_first")
    c.graph_error(cat("coordinate_mode '", mode, "' is not one of corners_height_first, corners_width_first, ",
                      "centers_height_first, centers_width_first"));
  c.require_float(0);
  c.require_same_dtype(0, 2);
  c.require_rank(0, 3);
  c.require_rank(1, 3);
  const Shape boxes = c.shape(0).ranked() ? c.shape(0) : Shape{-1, -1, -1};
  Shape scores = c.shape(1).ranked() ? c.shape(1) : Shape{-1, -1, -1};
  if (!compatible(boxes, Shape{-1, -1, 4})) c.shape_error(cat("boxes need four coordinates, came ", boxes));
  if (!compatible(scores, Shape{boxes[0], boxes[1], -1}))
    c.shape_error(cat("scores ", scores, " need the images and boxes of boxes ", boxes));
  scores = merge(scores, Shape{boxes[0], boxes[1], -1});
  if (c.count() == 3) {
    if (!is_integer(c.dtype(2))) c.dtype_error(cat("class_indices must be integers, came ", c.dtype(2)));
    if (!compatible(c.shape(2), Shape{scores[0], scores[1]}) || !compatible(scores, Shape{-1, -1, 1}))
      c.shape_error(cat("class_indices ", c.shape(2), " need the images and boxes of scores ", scores,
                        ", which have one score for each box"));
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
