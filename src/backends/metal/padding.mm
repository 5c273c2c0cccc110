// Padding and its gradient.
//
// MPSGraph's own padding modes are used where possible. MPSGraph rejects periodic padding and mirroring beyond the
// axis, and its padGradient computes the gradient of zero padding in every mode. In these cases, each axis is gathered
// with constant indices, and the gradient sums over these indices.
#include <algorithm>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/ops/shape.h"

namespace mpsgraph::metal {
namespace {

using ops::PadMode;

PadMode mode_of(const Lowering& l) { return *ops::pad_mode_from_name(l.attributes().string("mode")); }

// Return the MPSGraph padding mode that implements this padding. Returns nullopt if there is none; the padding is then
// computed by a gather.
std::optional<MPSGraphPaddingMode> native_mode(PadMode mode, const Ints& left, const Ints& right, const Dims& dims) {
  const auto reach = [&](int64_t less) {
    for (size_t i = 0; i < dims.size(); ++i)
      if (std::max(left[i], right[i]) > dims[i] - less) return false;
    return true;
  };
  switch (mode) {
    case PadMode::constant: return MPSGraphPaddingModeConstant;
    case PadMode::clamp_to_edge: return MPSGraphPaddingModeClampToEdge;
    case PadMode::reflect: return reach(1) ? std::optional(MPSGraphPaddingModeReflect) : std::nullopt;
    case PadMode::symmetric: return reach(0) ? std::optional(MPSGraphPaddingModeSymmetric) : std::nullopt;
    case PadMode::periodic:
    case PadMode::anti_periodic: break;
  }
  return std::nullopt;
}

// Describes how to pad one axis: for each position of the padded axis, the source element to copy and the sign by which
// it is multiplied.
struct Sources {
  Ints index, sign;
  Sources(PadMode mode, int64_t left, int64_t right, int64_t size) {
    for (int64_t position = -left; position < size + right; ++position) {
      const ops::PadSource source = ops::pad_source(mode, position, size);
      index.push_back(source.index);
      sign.push_back(source.negated ? -1 : 1);
    }
  }
  bool negates() const { return std::ranges::find(sign, -1) != sign.end(); }
};

// Return the signs as a tensor along the middle one of three axes.
MPSGraphTensor* signs(const Lowering& l, const Sources& sources, DType dtype) {
  return Steps(l).reshape(l.ints(sources.sign, dtype), {static_cast<int64_t>(sources.sign.size()), 1});
}

GraphTensors lower_pad(Lowering& l) {
  const Ints &left = l.attributes().integers("left"), &right = l.attributes().integers("right");
  const PadMode mode = mode_of(l);
  if (l.rank() == 0 || l.dims() == l.result_dims()) return {l.input()};
  // MPSGraph takes the constant as a double. If a double might not represent an integer constant exactly, the constant
  // is subtracted before padding with zeros and added afterwards; both operations wrap around.
  const Attribute* given = l.attributes().find("value");
  const bool exact = given && std::holds_alternative<ConstantPtr>(*given);
  if (exact && mode == PadMode::constant && is_integer(l.dtype())) {
    const Steps s(l);
    MPSGraphTensor* border = s.element("value", l.dtype());
    return {s.add(s.pad_zeros(s.subtract(l.input(), border), left, right), border)};
  }
  // A complex tensor is padded by its parts. The constant is real, so the imaginary part is padded with 0.
  bool imaginary = false;
  const double value = exact || l.attributes().string("mode") == "zero" ? 0 : l.attributes().real("value");
  const DType as = is_complex(l.dtype()) ? DType::float32 : moved_as(l.dtype());
  if (const auto native = native_mode(mode, left, right, l.dims()))
    return {carried(l, l.dtype(), as, {l.input()}, [&](const GraphTensors& in) {
      const double constant = imaginary ? 0 : value;
      imaginary = true;
      return Steps(l).pad(in[0], *native, left, right, constant);
    })};
  const Steps s(l);
  MPSGraphTensor* padded = l.input();
  Dims dims = l.dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (left[axis] == 0 && right[axis] == 0) continue;
    const Lanes lanes(dims, static_cast<int64_t>(axis));
    const Sources sources(mode, left[axis], right[axis], lanes.n);
    padded = moved(l, l.dtype(), s.reshape(padded, lanes.dims()), [&](MPSGraphTensor* x) {
      return [l.graph() gatherWithUpdatesTensor:x
                                  indicesTensor:l.ints(sources.index)
                                           axis:1
                                batchDimensions:0
                                           name:nil];
    });
    if (sources.negates())
      padded = carried(l, l.dtype(), as, {padded},
                       [&](const GraphTensors& in) { return s.multiply(in[0], signs(l, sources, as)); });
    dims[axis] += left[axis] + right[axis];
    padded = s.reshape(padded, dims);
  }
  return {padded};
}

// Crop the padding along each axis.
MPSGraphTensor* cropped(const Lowering& l, MPSGraphTensor* tensor, const Ints& left, const Dims& dims) {
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != l.dims()[axis])
      tensor = Steps(l).slice(tensor, static_cast<int64_t>(axis), left[axis], dims[axis]);
  return tensor;
}

GraphTensors lower_pad_gradient(Lowering& l) {
  const Ints &left = l.attributes().integers("left"), &right = l.attributes().integers("right");
  const PadMode mode = mode_of(l);
  if (l.rank() == 0 || l.dims() == l.result_dims()) return {l.input()};
  if (mode == PadMode::constant) return {cropped(l, l.input(), left, l.result_dims())};
  const Steps s(l);
  const DType as = is_integer(l.dtype()) ? l.dtype() : DType::float32;
  return {carried(l, l.dtype(), as, {l.input()}, [&](const GraphTensors& in) {
    MPSGraphTensor* sum = in[0];
    Dims dims = l.dims();
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (left[axis] == 0 && right[axis] == 0) continue;
      const Lanes lanes(dims, static_cast<int64_t>(axis));
      dims[axis] = l.result_dims()[axis];
      const Sources sources(mode, left[axis], right[axis], dims[axis]);
      sum = s.reshape(sum, lanes.dims());
      if (sources.negates()) sum = s.multiply(sum, signs(l, sources, as));
      sum = added(l, as, sum, lanes.n, [&](MPSGraphTensor* x) {
        return [l.graph() scatterWithDataTensor:l.filled(0, {DType::float32, Shape(lanes.dims(dims[axis]))})
                                  updatesTensor:x
                                  indicesTensor:l.ints(sources.index)
                                           axis:1
                                           mode:MPSGraphScatterModeAdd
                                           name:nil];
      });
      sum = s.reshape(sum, dims);
    }
    return sum;
  })};
}

}  // namespace

const Lowerings padding_lowerings("padding", [] {
  define_lowering("pad", lower_pad);
  define_lowering("pad_gradient", lower_pad_gradient);
});

}  // namespace mpsgraph::metal
