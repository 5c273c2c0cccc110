// Node family dropout: MPSCNNDropoutNode. The mask depends on the seed and the batch's number; the gradient uses the
// same mask. A stride of 0 in x, y, or channels shares one random number along that axis.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

Ints mask_shape(const Lowering& l) {
  const Ints& stride = l.attributes().integers("mask_stride_in_pixels");
  return {l.batch(), stride[1] ? l.height() : 1, stride[0] ? l.width() : 1, stride[2] ? l.channels() : 1};
}

Tensor* masked(const Lowering& l, Tensor* kept) {
  return l.b.mul(l.sources[0], l.b.mul(kept, 1 / l.attributes().real("keep_probability")));
}

Tensor* lower_dropout(Lowering& l) {
  Tensor* uniform = l.b.graph().create("random", {l.b.ints(mask_shape(l)), l.seed()}, {})->output(0);
  Tensor* keep = l.b.scalar_like(uniform, l.attributes().real("keep_probability"));
  return masked(l, l.state["mask"] = l.b.cast(l.b.binary("less_than", uniform, keep), DType::float32));
}

// Gradient of a dropout node in another graph, which exported the dropout mask.
Tensor* lower_dropout_gradient(Lowering& l) {
  for (Tensor* source : l.sources)
    if (source->shape() != l.sources[0]->shape())
      l.shape_error(cat("the gradient must have the shape of the dropout's source image ", source->shape(), ", got ",
                        l.sources[0]->shape()));
  Tensor* mask = l.fed("mask");
  const Shape expected{Dims(mask_shape(l))};
  if (mask->shape() != expected)
    l.shape_error(cat("the mask of the source state must have shape ", expected, ", got ", mask->shape(),
                      "; the state belongs to another batch or another dropout node"));
  return masked(l, mask);
}

void check_dropout(const FilterNode& node) {
  const double keep = node.attributes().real("keep_probability");
  if (!(keep > 0 && keep < 1))
    throw GraphError(
        cat("[", node.title(), "] keep_probability must be between 0 and 1 (exclusive), got ", keep, node.where()));
  const Ints& stride = node.attributes().integers("mask_stride_in_pixels");
  const bool fits =
      stride.size() == 3 && std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 0 || s == 1; });
  if (!fits)
    throw GraphError(cat("[", node.title(),
                         "] mask_stride_in_pixels must be three numbers (x, y, channels), each 0 or 1, got ",
                         to_string(stride), node.where()));
}

}  // namespace

const NodeFamily dropout_family("dropout", [] {
  NodeDefinition d;
  d.name = "dropout";
  d.apple = "MPSCNNDropoutNode";
  d.first_macos = "10.13.4";
  d.apple_gradient = "MPSCNNDropoutGradientNode";
  d.attributes = {optional("keep_probability", 0.5), optional("seed", int64_t{0}),
                  optional("mask_stride_in_pixels", Ints{1, 1, 1})};
  d.lower = lower_dropout;
  d.check = check_dropout;
  d.random = true;
  d.left = {"mask"};
  NodeDefinition gradient = d;
  define_node(std::move(d));
  gradient.name = "dropout_gradient";
  gradient.apple = gradient.apple_gradient;
  gradient.apple_gradient = {};
  gradient.without = "it is a gradient filter itself";
  gradient.min_sources = gradient.max_sources = 2;
  gradient.lower = lower_dropout_gradient;
  gradient.random = false;
  gradient.left = {};
  gradient.states = {"mask"};
  define_node(std::move(gradient));
});

}  // namespace mpsgraph::nngraph
