// Node family pooling: MPSCNNPoolingMaxNode, …AverageNode, …L2NormNode, MPSCNNDilatedPoolingMaxNode.
//
// Pixels outside the image do not count: an average is over the pixels inside (Apple's edge mode clamp, the default of
// these nodes), and 0 if there are none. The gradient of a maximum goes to the first maximum in its window.
#include <algorithm>

#include "mpsgraph/core/gradients.h"
#include "nngraph/windows.h"

namespace mpsgraph::nngraph {
namespace {

Window window_of(const Lowering& l) {
  const Attributes& a = l.attributes();
  const auto dilation = [&](std::string_view key) { return a.has(key) ? a.integer(key) : 1; };
  return {a.integer("kernel_height"),      a.integer("kernel_width"),   a.integer("stride_in_pixels_y"),
          a.integer("stride_in_pixels_x"), dilation("dilation_rate_y"), dilation("dilation_rate_x")};
}

Windowed pooled(const Lowering& l, const Window& window) {
  Windowed w = windowed(l, window);
  w.attributes.set("kernel", Ints{window.height, window.width});
  return w;
}

bool all_touch(const Windowed& w, const Window& window) {
  const Ints& padding = w.attributes.integers("padding");
  return std::max(padding[0], padding[1]) <= (window.height - 1) * window.dilation_y &&
         std::max(padding[2], padding[3]) <= (window.width - 1) * window.dilation_x;
}

// Return the windows of a pooling, and check that each overlaps the image.
Windowed touching(const Lowering& l, const Window& window) {
  Windowed w = pooled(l, window);
  if (!all_touch(w, window))
    l.shape_error(cat("padding [top, bottom, left, right] of ", to_string(w.attributes.integers("padding")),
                      " is too large: some windows of ", window.height, "x", window.width,
                      " would lie outside the image"));
  return w;
}

Tensor* pool(Lowering& l, Kind kind, Tensor* (*before)(Builder&, Tensor*) = nullptr) {
  const Windowed w = touching(l, window_of(l));
  return l.add(kind, {before ? before(l.b, w.source) : w.source}, w.attributes);
}

Tensor* lower_max(Lowering& l) { return pool(l, "max_pooling2d"); }

// If some windows lie outside the image, the average is the mean over the zero-padded image, divided by the mean over a
// zero-padded image of ones.
Tensor* lower_average(Lowering& l) {
  const Window window = window_of(l);
  Windowed w = pooled(l, window);
  if (all_touch(w, window)) return l.add("avg_pooling2d", {w.source}, w.attributes);
  const Ints padding = w.attributes.integers("padding");
  w.attributes.set("padding", Ints{0, 0, 0, 0});
  const auto mean_in_zeros = [&](Tensor* image) {
    Tensor* in_zeros = l.add(
        "pad", {image}, {{"left", Ints{0, padding[0], padding[2], 0}}, {"right", Ints{0, padding[1], padding[3], 0}}});
    return l.add("avg_pooling2d", {in_zeros}, w.attributes);
  };
  const Dims& size = w.source->shape().dims();
  Tensor* ones = l.b.filled({DType::float32, Shape{1, size[1], size[2], 1}}, 1);
  Tensor* mean_of_ones = mean_in_zeros(ones);
  return l.b.binary("division_no_nan", mean_in_zeros(w.source), mean_of_ones);
}

// Return the square root of the sum of squares. The sum is the mean over the zero-padded window times the window's
// size.
Tensor* lower_l2_norm(Lowering& l) {
  const Window window = window_of(l);
  Windowed w = touching(l, window);
  w.attributes.set("include_zero_pad_to_average", true);
  Tensor* mean = l.add("avg_pooling2d", {l.b.unary("square", w.source)}, w.attributes);
  l.state["sum"] = l.b.mul(mean, static_cast<double>(window.height * window.width));
  return l.state["norm"] = l.b.unary("square_root", l.state["sum"]);
}

// A window of zeros has zero gradient, because the square root is not differentiable at zero.
Tensor* d_l2_norm(Lowering& l, Tensor* incoming, size_t) {
  Tensor* start = l.b.mul(l.b.binary("division_no_nan", incoming, l.state["norm"]), 0.5);
  return gradients(l.state["sum"], {l.sources[0]}, start)[0];
}

void check_windows(const FilterNode& node) {
  for (const auto& [key, value] : node.attributes().items())
    if (const int64_t* number = std::get_if<int64_t>(&value); number && *number < 1)
      throw GraphError(cat("[", node.title(), "] ", key, " must be at least 1, got ", *number, node.where()));
}

NodeDefinition of_pooling(std::string_view name, std::string_view apple, std::string_view apple_gradient,
                          std::function<Tensor*(Lowering&)> lower) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = "10.13";
  d.apple_gradient = apple_gradient;
  for (std::string_view key : {"kernel_width", "kernel_height", "stride_in_pixels_x", "stride_in_pixels_y"})
    d.attributes.push_back(required(key, AttributeKind::integer));
  d.windows = true;
  d.lower = std::move(lower);
  d.check = check_windows;
  return d;
}

}  // namespace

const NodeFamily pooling_family("pooling", [] {
  define_node(of_pooling("pooling_max", "MPSCNNPoolingMaxNode", "MPSCNNPoolingMaxGradientNode", lower_max));
  define_node(
      of_pooling("pooling_average", "MPSCNNPoolingAverageNode", "MPSCNNPoolingAverageGradientNode", lower_average));
  NodeDefinition l2 =
      of_pooling("pooling_l2_norm", "MPSCNNPoolingL2NormNode", "MPSCNNPoolingL2NormGradientNode", lower_l2_norm);
  l2.gradient = d_l2_norm;
  define_node(std::move(l2));
  NodeDefinition dilated = of_pooling("dilated_pooling_max", "MPSCNNDilatedPoolingMaxNode",
                                      "MPSCNNDilatedPoolingMaxGradientNode", lower_max);
  for (std::string_view key : {"dilation_rate_x", "dilation_rate_y"})
    dilated.attributes.push_back(optional(key, int64_t{1}));
  define_node(std::move(dilated));
});

}  // namespace mpsgraph::nngraph
