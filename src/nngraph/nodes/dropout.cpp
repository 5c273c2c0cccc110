// Family dropout: MPSCNNDropoutNode. The mask is drawn anew for each batch, from the seed and the batch's number, and
// is the same in the gradient. A stride of 0 in x, y or channels draws one number for all of that axis.
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

// By the mask that the dropout left in another graph.
Tensor* lower_dropout_gradient(Lowering& l) {
  for (Tensor* source : l.sources)
    if (source->shape() != l.sources[0]->shape())
      l.shape_error(cat("the gradient is ", l.sources[0]->shape(), ", the dropout's source image ", source->shape()));
  Tensor* mask = l.fed("mask");
  const Shape expected{Dims(mask_shape(l))};
  if (mask->shape() != expected)
    l.shape_error(cat("its state has a mask of ", mask->shape(), ", ", expected,
                      " is expected: it belongs to another batch, or to another dropout"));
  return masked(l, mask);
}

void check_dropout(const FilterNode& node) {
  const double keep = node.attributes().real("keep_probability");
  if (!(keep > 0 && keep < 1))
    throw GraphError(cat("[", node.title(), "] keep_probability must lie between 0 and 1, came ", keep, node.where()));
  const Ints& stride = node.attributes().integers("mask_stride_in_pixels");
  const bool fits =
      stride.size() == 3 && std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 0 || s == 1; });
  if (!fits)
    throw GraphError(cat("[", node.title(),
                         "] mask_stride_in_pixels is three numbers x, y, channels, each 0 or 1, came ",
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
  gradient.without = "it is a gradient filter";
  gradient.min_sources = gradient.max_sources = 2;
  gradient.lower = lower_dropout_gradient;
  gradient.random = false;
  gradient.left = {};
  gradient.states = {"mask"};
  define_node(std::move(gradient));
});

}  // namespace mpsgraph::nngraph
