// Node family resize: MPSCNNUpsamplingNearestNode and …BilinearNode scale by integer factors; MPSNNBilinearScaleNode
// and MPSNNLanczosScaleNode scale to a fixed size.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

Tensor* resized(Lowering& l, Kind kind, int64_t height, int64_t width, bool center, bool align) {
  Attributes attributes{{"center_result", center}, {"align_corners", align}, {"layout", std::string("NHWC")}};
  if (kind == "resize_nearest") attributes.set("nearest_rounding_mode", std::string("floor"));
  return l.add(kind, {l.sources[0], l.b.ints({height, width})}, std::move(attributes));
}

int64_t grown(const Lowering& l, int64_t size, std::string_view key) { return size * l.attributes().integer(key); }

Tensor* lower_upsampling(Lowering& l, Kind kind) {
  const bool align = l.attributes().has("align_corners") && l.attributes().boolean("align_corners");
  return resized(l, kind, grown(l, l.height(), "integer_scale_factor_y"), grown(l, l.width(), "integer_scale_factor_x"),
                 false, align);
}

// Return the Lanczos resampling weights of one axis: a matrix [to, from] whose rows sum to 1, with pixel centers as the
// sample positions.
ConstantPtr lanczos_weights(int64_t from, int64_t to) {
  constexpr double lobes = 3;
  const double scale = static_cast<double>(from) / static_cast<double>(to), width = std::max(1.0, scale);
  const auto sinc = [](double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); };
  std::vector<float> weights(static_cast<size_t>(to * from));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    std::vector<double> row(static_cast<size_t>(from));
    double sum = 0;
    const auto first = static_cast<int64_t>(std::ceil(centre - lobes * width));
    for (int64_t j = first; static_cast<double>(j) <= centre + lobes * width; ++j) {
      const double x = (static_cast<double>(j) - centre) / width;
      if (std::abs(x) >= lobes) continue;
      const double weight = sinc(x) * sinc(x / lobes);
      // positions outside the image use the nearest edge pixel
      row[static_cast<size_t>(std::clamp<int64_t>(j, 0, from - 1))] += weight;
      sum += weight;
    }
    for (int64_t j = 0; j < from; ++j)
      weights[static_cast<size_t>(i * from + j)] = static_cast<float>(row[static_cast<size_t>(j)] / sum);
  }
  return ConstantData::copy(DType::float32, {to, from}, weights.data());
}

// Resample images [N, H, W, C] with two matmuls, first along the rows, then along the columns.
Tensor* lower_lanczos(Lowering& l) {
  const int64_t height = l.attributes().integer("height"), width = l.attributes().integer("width");
  const auto weights = [&](int64_t from, int64_t to) {
    return l.add("constant", {}, {{"value", lanczos_weights(from, to)}});
  };
  Tensor* rows = l.b.reshape(l.sources[0], Ints{l.batch(), l.height(), l.width() * l.channels()});
  Tensor* tall = l.b.matmul(weights(l.height(), height), rows);
  Tensor* columns = l.b.reshape(tall, Ints{l.batch() * height, l.width(), l.channels()});
  Tensor* result = l.b.matmul(weights(l.width(), width), columns);
  return l.b.reshape(result, Ints{l.batch(), height, width, l.channels()});
}

void check_positive(const FilterNode& node) {
  for (const auto& [key, value] : node.attributes().items())
    if (const int64_t* number = std::get_if<int64_t>(&value); number && *number < 1)
      throw GraphError(cat("[", node.title(), "] ", key, " must be at least 1, got ", *number, node.where()));
}

}  // namespace

const NodeFamily resize_family("resize", [] {
  const auto upsampling = [](std::string_view name, std::string_view apple, std::string_view gradient, Kind kind) {
    NodeDefinition d;
    d.name = name;
    d.apple = apple;
    d.first_macos = "10.13";
    d.apple_gradient = gradient;
    d.attributes = {required("integer_scale_factor_x", AttributeKind::integer),
                    required("integer_scale_factor_y", AttributeKind::integer)};
    if (kind == "resize_bilinear") d.attributes.push_back(optional("align_corners", false));
    d.lower = [kind](Lowering& l) { return lower_upsampling(l, kind); };
    d.check = check_positive;
    define_node(std::move(d));
  };
  upsampling("upsampling_nearest", "MPSCNNUpsamplingNearestNode", "MPSCNNUpsamplingNearestGradientNode",
             "resize_nearest");
  upsampling("upsampling_bilinear", "MPSCNNUpsamplingBilinearNode", "MPSCNNUpsamplingBilinearGradientNode",
             "resize_bilinear");
  const auto scale = [](std::string_view name, std::string_view apple, std::function<Tensor*(Lowering&)> lower) {
    NodeDefinition d;
    d.name = name;
    d.apple = apple;
    d.first_macos = "10.13";
    d.without = "the legacy MPSNNGraph API has no gradient filter for scaling to a fixed size; use an upsampling node";
    d.attributes = {required("width", AttributeKind::integer), required("height", AttributeKind::integer)};
    d.lower = std::move(lower);
    d.check = check_positive;
    define_node(std::move(d));
  };
  scale("bilinear_scale", "MPSNNBilinearScaleNode", [](Lowering& l) {
    return resized(l, "resize_bilinear", l.attributes().integer("height"), l.attributes().integer("width"), true,
                   false);
  });
  scale("lanczos_scale", "MPSNNLanczosScaleNode", lower_lanczos);
});

}  // namespace mpsgraph::nngraph
