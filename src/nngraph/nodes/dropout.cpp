// Family dropout: MPSCNNDropoutNode. The mask is drawn anew for each batch, from the seed and the batch's number, and
// is the same in the gradient. A stride of 0 in x, y or channels draws one number for all of that axis.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

Tensor* lower_dropout(Lowering& l) {
  const Attributes& a = l.attributes();
  const double keep = a.real("keep_probability");
  const Ints& stride = a.integers("mask_stride_in_pixels");
  const Ints shape{l.batch(), stride[1] ? l.height() : 1, stride[0] ? l.width() : 1, stride[2] ? l.channels() : 1};
  Tensor* uniform = l.b.graph().create("random", {l.b.ints(shape), l.seed()}, {})->output(0);
  Tensor* kept = l.b.cast(l.b.binary("less_than", uniform, l.b.scalar_like(uniform, keep)), DType::float32);
  return l.b.mul(l.sources[0], l.b.mul(kept, 1 / keep));
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
  define_node(std::move(d));
});

}  // namespace mpsgraph::nngraph
