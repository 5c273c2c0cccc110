// Resizing of images by nearest-neighbor or linear interpolation, and the gradients.
//
// MPSGraph interpolates 2-D images. MPSGraph's operation is used if the layout names the image axes and MPSGraph's
// documentation defines the centering. All other resizes are composed per axis by picking and weighting elements. This
// includes nearest-neighbor, because halfway points round identically on all devices only if positions are exact, and
// scales and offsets that are operands, because they need not be constants.
#include <algorithm>
#include <cmath>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "backends/metal/windows.h"
#include "core/ops/resize.h"

namespace mpsgraph::metal {
namespace {

// The elements to pick along one axis: for each element of the result, the index of an image element and the weight by
// which it is multiplied, both of shape (1, result, 1). A null weight means 1.
struct Pick {
  MPSGraphTensor *index, *weight;
};

class Resize {
 public:
  Resize(const Lowering& l, const Dims& images, const Dims& result) : l_(l), s_(l), images_(images), result_(result) {
    const Attributes& a = l.attributes();
    axes_ = *ops::resized_axes(a.string("layout"), static_cast<int>(images.size()));
    if (const Attribute* mode = a.find("nearest_rounding_mode"))
      nearest_ = ops::rounding_from_name(std::get<std::string>(*mode));
    given_ = l.count() > 2;
  }

  bool nearest() const { return nearest_.has_value(); }
  // Whether MPSGraph's operation can be used. An axis of one element has no corners to align, so it is excluded.
  bool native() const {
    const auto several = [this](int axis) { return images_[size_t(axis)] > 1 && result_[size_t(axis)] > 1; };
    return !nearest_ && !given_ && !l_.attributes().string("layout").empty() &&
           std::all_of(axes_.begin(), axes_.end(), several);
  }

  MPSGraphTensor* forward(MPSGraphTensor* tensor) const {
    Dims now = images_;
    for (size_t k = 0; k < axes_.size(); ++k) {
      if (!moves(k)) continue;
      const Lanes lanes(now, axes_[k]);
      const auto axis = static_cast<size_t>(axes_[k]);
      MPSGraphTensor *rows = s_.reshape(tensor, lanes.dims()), *sum = nil;
      for (const Pick& pick : picks(k)) {
        MPSGraphTensor* picked = [l_.graph() gatherWithUpdatesTensor:rows
                                                       indicesTensor:pick.index
                                                                axis:1
                                                     batchDimensions:0
                                                                name:nil];
        if (pick.weight) picked = s_.multiply(picked, pick.weight);
        sum = sum ? s_.add(sum, picked) : picked;
      }
      now[axis] = result_[axis];
      tensor = s_.reshape(sum, now);
    }
    return tensor;
  }

  // Apply the transpose of the resize: each element of `tensor` is multiplied by its weight and added to the image
  // elements from which the resize computes it. Floats use one matrix per axis, because scattering adds in an undefined
  // order; for integers the order is irrelevant.
  MPSGraphTensor* backward(MPSGraphTensor* tensor, DType dtype) const {
    Dims now = result_;
    for (size_t k = axes_.size(); k-- > 0;) {
      if (!moves(k)) continue;
      const auto axis = static_cast<size_t>(axes_[k]);
      const Lanes lanes(now, axes_[k]);
      MPSGraphTensor* rows = s_.reshape(tensor, lanes.dims());
      now[axis] = images_[axis];
      tensor = s_.reshape(
          is_float(dtype) ? multiplied(k, rows) : scattered(k, rows, {dtype, Shape(lanes.dims(now[axis]))}), now);
    }
    return tensor;
  }

 private:
  bool moves(size_t k) const { return given_ || images_[size_t(axes_[k])] != result_[size_t(axes_[k])]; }

  // Row j and column i of the matrix hold the weight of image element j in result element i.
  MPSGraphTensor* multiplied(size_t k, MPSGraphTensor* rows) const {
    const int64_t input = images_[size_t(axes_[k])], result = result_[size_t(axes_[k])];
    MPSGraphTensor *own = s_.coordinate(1, {1, input, 1}), *matrix = nil;
    for (const Pick& pick : picks(k)) {
      MPSGraphTensor* part = s_.cast(s_.equal(own, s_.reshape(pick.index, {1, 1, result})), DType::float32);
      if (pick.weight) part = s_.multiply(part, s_.reshape(pick.weight, {1, 1, result}));
      matrix = matrix ? s_.add(matrix, part) : part;
    }
    return [l_.graph() matrixMultiplicationWithPrimaryTensor:matrix secondaryTensor:rows name:nil];
  }

  MPSGraphTensor* scattered(size_t k, MPSGraphTensor* rows, const TensorType& type) const {
    MPSGraphTensor* sum = l_.filled(0, type);
    for (const Pick& pick : picks(k))
      sum = [l_.graph() scatterWithDataTensor:sum
                                updatesTensor:rows
                                indicesTensor:pick.index
                                         axis:1
                                         mode:MPSGraphScatterModeAdd
                                         name:nil];
    return sum;
  }

  std::vector<Pick> picks(size_t k) const {
    const int64_t input = images_[size_t(axes_[k])], result = result_[size_t(axes_[k])];
    return given_ ? picks_of(places(k, result), input) : known_picks(input, result);
  }

  std::vector<Pick> known_picks(int64_t input, int64_t result) const {
    const ops::Placement placement{ops::placement_mode(l_.attributes())};
    Ints low, high;
    std::vector<float> before, behind;
    for (int64_t i = 0; i < result; ++i) {
      const double place = placement.source(i, input, result);
      if (nearest_) {
        low.push_back(ops::rounded_index(place, *nearest_, input));
        continue;
      }
      const double inside = std::clamp(place, 0.0, static_cast<double>(input - 1));
      low.push_back(static_cast<int64_t>(inside));
      high.push_back(std::min(low.back() + 1, input - 1));
      behind.push_back(static_cast<float>(inside - std::floor(inside)));
      before.push_back(1 - behind.back());
    }
    if (nearest_) return {{l_.ints(low, DType::int32), nil}};
    return {{l_.ints(low, DType::int32), along_axis(l_, before, 1, 3, DType::float32)},
            {l_.ints(high, DType::int32), along_axis(l_, behind, 1, 3, DType::float32)}};
  }

  // Return the position i = position * scale + offset in the image for each result position.
  MPSGraphTensor* places(size_t k, int64_t result) const {
    const auto own = [&](size_t operand) {
      return s_.cast(s_.slice(l_.input(operand), 0, static_cast<int64_t>(k), 1), DType::float32);
    };
    MPSGraphTensor* i = s_.cast(s_.coordinate(0, {result}), DType::float32);
    return s_.divide(s_.subtract(i, own(3)), own(2));
  }

  // NaN positions map to the first element.
  MPSGraphTensor* inside(MPSGraphTensor* place, int64_t input) const {
    MPSGraphTensor* first = l_.scalar(0, DType::float32);
    MPSGraphTensor* last = l_.scalar(static_cast<double>(input - 1), DType::float32);
    MPSGraphTensor* number = s_.select(s_.equal(place, place), place, first);
    return s_.minimum(s_.maximum(number, first), last);
  }

  std::vector<Pick> picks_of(MPSGraphTensor* place, int64_t input) const {
    if (nearest_) return {{s_.cast(inside(rounded(place), input), DType::int32), nil}};
    place = inside(place, input);
    MPSGraphTensor* low = floor(place);
    MPSGraphTensor *one = l_.scalar(1, DType::float32), *fraction = s_.subtract(place, low);
    const auto weight = [&](MPSGraphTensor* w) { return s_.reshape(w, {1, dims_of(place.shape)[0], 1}); };
    return {{s_.cast(low, DType::int32), weight(s_.subtract(one, fraction))},
            {s_.cast(inside(s_.add(low, one), input), DType::int32), weight(fraction)}};
  }

  MPSGraphTensor* floor(MPSGraphTensor* x) const { return [l_.graph() floorWithTensor:x name:nil]; }
  MPSGraphTensor* ceil(MPSGraphTensor* x) const { return [l_.graph() ceilWithTensor:x name:nil]; }
  MPSGraphTensor* rint(MPSGraphTensor* x) const { return [l_.graph() rintWithTensor:x name:nil]; }
  MPSGraphTensor* rounded(MPSGraphTensor* place) const {
    MPSGraphTensor *half = l_.scalar(0.5, DType::float32), *one = l_.scalar(1, DType::float32);
    switch (*nearest_) {
      case ops::Rounding::round_prefer_ceil: return floor(s_.add(place, half));
      case ops::Rounding::round_prefer_floor: return ceil(s_.subtract(place, half));
      case ops::Rounding::ceil: return ceil(place);
      case ops::Rounding::floor: return floor(place);
      case ops::Rounding::round_to_even: return rint(place);
      case ops::Rounding::round_to_odd: break;
    }
    // rint rounds halfway points to even numbers. If 1 is subtracted before rint and added again afterwards, halfway
    // points are rounded to odd numbers.
    return s_.add(rint(s_.subtract(place, one)), one);
  }

  const Lowering& l_;
  const Steps s_;
  const Dims &images_, &result_;
  std::vector<int> axes_;
  std::optional<ops::Rounding> nearest_;
  bool given_;
};

MPSGraphTensorNamedDataLayout plane_layout(const std::string& name) {
  if (name == "NHWC") return MPSGraphTensorNamedDataLayoutNHWC;
  if (name == "NCHW") return MPSGraphTensorNamedDataLayoutNCHW;
  if (name == "HWC") return MPSGraphTensorNamedDataLayoutHWC;
  return name == "CHW" ? MPSGraphTensorNamedDataLayoutCHW : MPSGraphTensorNamedDataLayoutHW;
}

GraphTensors lower_resize(Lowering& l) {
  const Resize resize(l, l.dims(), l.result_dims());
  const Attributes& a = l.attributes();
  if (resize.native()) {
    const auto axes = *ops::resized_axes(a.string("layout"), l.rank());
    const Dims& result = l.result_dims();
    return {[l.graph() resizeBilinearWithTensor:l.input()
                                     sizeTensor:l.ints({result[size_t(axes[0])], result[size_t(axes[1])]}, DType::int64)
                                   centerResult:a.boolean("center_result")
                                   alignCorners:a.boolean("align_corners")
                                         layout:plane_layout(a.string("layout"))
                                           name:l.name()]};
  }
  if (resize.nearest()) return {moved(l, l.dtype(), l.input(), [&](MPSGraphTensor* x) { return resize.forward(x); })};
  return {carried(l, l.dtype(), DType::float32, {l.input()},
                  [&](const GraphTensors& in) { return resize.forward(in[0]); })};
}

// Gradient of a resize. Operands: incoming gradient, input_shape[, scale, offset]. Of the images, only the shape is
// needed.
GraphTensors lower_d_resize(Lowering& l) {
  const Resize resize(l, l.result_dims(), l.dims());
  const Attributes& a = l.attributes();
  if (resize.native())
    return {[l.graph() resizeBilinearWithGradientTensor:l.input()
                                                  input:l.filled(0, l.result_type())
                                           centerResult:a.boolean("center_result")
                                           alignCorners:a.boolean("align_corners")
                                                 layout:plane_layout(a.string("layout"))
                                                   name:l.name()]};
  return {added(l, l.dtype(), l.input(), l.type().shape.elements(),
                [&](MPSGraphTensor* x) { return resize.backward(x, summing_type(l.dtype())); })};
}

}  // namespace

const Lowerings resize_lowerings("resize", [] {
  for (const Kind kind : Kinds{"resize_nearest", "resize_bilinear"}) define_lowering(kind, lower_resize);
  for (const Kind kind : Kinds{"resize_nearest_gradient", "resize_bilinear_gradient"})
    define_lowering(kind, lower_d_resize);
});

}  // namespace mpsgraph::metal
