// Node family local_normalization: normalization by the neighborhood of a pixel. MPSCNNSpatialNormalizationNode,
// …CrossChannelNormalizationNode, …LocalContrastNormalizationNode. Images are surrounded by zeros.
//
//   spatial:         y = x / (delta + alpha * mean of squares)^beta, with the mean over the neighboring pixels
//   cross-channel:   the same formula, with the mean over the neighboring channels
//   local contrast:  y = pm + ps * (x - p0 * mean) / (delta + alpha * variance)^beta, with the mean and the variance
//                    over the neighboring pixels
//
// alpha, beta, delta, pm, ps, and p0 are attributes of the nodes.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

// Return, for each pixel of an NHWC image, the mean over the window of height x width around it.
Tensor* around(const Lowering& l, Tensor* x, int64_t height, int64_t width) {
  const int64_t top = height / 2, left = width / 2;
  return l.add("avg_pooling2d", {x},
               {{"kernel", Ints{height, width}},
                {"strides", Ints{1, 1}},
                {"dilations", Ints{1, 1}},
                {"padding", Ints{top, height - 1 - top, left, width - 1 - left}},
                {"padding_style", std::string("EXPLICIT")},
                {"include_zero_pad_to_average", true}});
}

Tensor* spread(const Lowering& l, Tensor* mean_of_squares) {
  const Attributes& a = l.attributes();
  Tensor* base = l.b.add(l.b.mul(mean_of_squares, a.real("alpha")), a.real("delta"));
  return l.b.binary("power", base, l.b.scalar_like(base, a.real("beta")));
}

Tensor* lower_spatial(Lowering& l) {
  const Attributes& a = l.attributes();
  Tensor* squares = around(l, l.b.unary("square", l.sources[0]), a.integer("kernel_height"), a.integer("kernel_width"));
  return l.b.div(l.sources[0], spread(l, squares));
}

// Cross-channel windows are computed with channels as the second spatial axis of one-channel images.
Tensor* lower_cross_channel(Lowering& l) {
  Tensor* squares =
      l.b.reshape(l.b.unary("square", l.sources[0]), Ints{l.batch(), l.height() * l.width(), l.channels(), 1});
  Tensor* mean = l.b.reshape_like(around(l, squares, 1, l.attributes().integer("kernel_size")), l.sources[0]);
  return l.b.div(l.sources[0], spread(l, mean));
}

Tensor* lower_local_contrast(Lowering& l) {
  const Attributes& a = l.attributes();
  const int64_t height = a.integer("kernel_height"), width = a.integer("kernel_width");
  Tensor *x = l.sources[0], *mean = around(l, x, height, width);
  Tensor* square_of_mean = l.b.unary("square", mean);
  Tensor* variance = l.b.sub(around(l, l.b.unary("square", x), height, width), square_of_mean);
  Tensor* zero = l.b.scalar_like(x, 0);  // rounding can make the variance negative
  Tensor* above = l.b.mul(l.b.sub(x, l.b.mul(mean, a.real("p0"))), a.real("ps"));
  return l.b.add(l.b.div(above, spread(l, l.b.binary("maximum", variance, zero))), a.real("pm"));
}

void define_local(std::string_view name, std::string_view apple, std::string_view apple_gradient,
                  std::vector<std::string_view> sizes, double beta, double delta,
                  std::function<Tensor*(Lowering&)> lower) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = "10.13";
  d.apple_gradient = apple_gradient;
  for (std::string_view size : sizes) d.attributes.push_back(optional(size, int64_t{5}));
  d.attributes.push_back(optional("alpha", 1.0));
  d.attributes.push_back(optional("beta", beta));
  d.attributes.push_back(optional("delta", delta));
  if (name == "local_contrast_normalization")
    for (const auto& [key, value] : {std::pair("pm", 0.0), std::pair("ps", 1.0), std::pair("p0", 1.0)})
      d.attributes.push_back(optional(key, value));
  d.lower = std::move(lower);
  d.check = [sizes](const FilterNode& node) {
    for (std::string_view size : sizes)
      if (node.attributes().integer(size) < 1)
        throw GraphError(cat("[", node.title(), "] ", std::string(size), " must be at least 1, got ",
                             node.attributes().integer(size), node.where()));
  };
  define_node(std::move(d));
}

}  // namespace

const NodeFamily local_normalization_family("local_normalization", [] {
  define_local("spatial_normalization", "MPSCNNSpatialNormalizationNode", "MPSCNNSpatialNormalizationGradientNode",
               {"kernel_width", "kernel_height"}, 5.0, 1.0, lower_spatial);
  define_local("cross_channel_normalization", "MPSCNNCrossChannelNormalizationNode",
               "MPSCNNCrossChannelNormalizationGradientNode", {"kernel_size"}, 5.0, 1.0, lower_cross_channel);
  define_local("local_contrast_normalization", "MPSCNNLocalContrastNormalizationNode",
               "MPSCNNLocalContrastNormalizationGradientNode", {"kernel_width", "kernel_height"}, 0.5, 1.0 / 1024,
               lower_local_contrast);
});

}  // namespace mpsgraph::nngraph
