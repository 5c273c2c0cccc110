// Stencils and their gradients, without boundary handling, which is a separate pad or slice before the stencil.
//
// MPSGraph reduces windows by sum, minimum, and maximum. Apple does not document what the modes ArgumentMin and
// ArgumentMax return, and MPSGraph has no gradients of stencils. Stencils with these two modes, and all gradients, are
// therefore composed of slices, one per kernel element.
#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "backends/metal/windows.h"

namespace mpsgraph::metal {
namespace {

Taps taps_of(const Lowering& l, const Dims& source, const Dims& weights) {
  const ops::Windows windows(l.attributes());
  std::vector<int> axes;
  std::vector<ops::Window> each;
  for (int i = 0; i < 4; ++i) {
    axes.push_back(static_cast<int>(source.size()) - 4 + i);
    each.push_back(window_of(windows, i, ops::size_at(source, windows.spatial[i]), weights[static_cast<size_t>(i)]));
  }
  return Taps(l, source, axes, each);
}

// The stencil's weights as separate scalars.
class Weights {
 public:
  Weights(const Lowering& l, MPSGraphTensor* weights, int64_t count) : s_(l), flat_(s_.reshape(weights, {count})) {}
  MPSGraphTensor* operator[](int64_t tap) const { return s_.slice(flat_, 0, tap, 1); }

 private:
  const Steps s_;
  MPSGraphTensor* const flat_;
};

GraphTensors lower_argument(Lowering& l, bool largest) {
  const Steps s(l);
  const Taps taps = taps_of(l, l.dims(0), l.dims(1));
  MPSGraphTensor* source = taps.padded(l.input(0));
  const Weights weights(l, l.input(1), taps.count());
  return {of_extremum(
      l, taps, [&](int64_t t) { return s.multiply(taps.slice(source, t), weights[t]); },
      [&](int64_t t) { return l.filled(static_cast<double>(t), l.result_type()); }, largest)};
}

GraphTensors lower_windows(Lowering& l) {
  const std::string& mode = l.attributes().string("reduction_mode");
  if (mode == "arg_minimum" || mode == "arg_maximum") return lower_argument(l, mode == "arg_maximum");
  const Taps taps = taps_of(l, l.dims(0), l.dims(1));
  Ints strides, dilations, padding;
  for (const ops::Window& w : taps.windows()) {
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
    padding.insert(padding.end(), {w.begin, behind(w)});
  }
  const MPSGraphReductionMode reduction = mode == "sum"       ? MPSGraphReductionModeSum
                                          : mode == "minimum" ? MPSGraphReductionModeMin
                                                              : MPSGraphReductionModeMax;
  if (mode != "sum" && mode != "minimum" && mode != "maximum")
    l.unsupported(cat("reduction_mode must be sum, minimum, or maximum, got ", mode));
  MPSGraphStencilOpDescriptor* descriptor =
      [MPSGraphStencilOpDescriptor descriptorWithReductionMode:reduction
                                                       offsets:@[ @0, @0, @0, @0 ]
                                                       strides:numbers(strides)
                                                 dilationRates:numbers(dilations)
                                               explicitPadding:numbers(padding)
                                                  boundaryMode:MPSGraphPaddingModeZero
                                                  paddingStyle:MPSGraphPaddingStyleExplicit
                                               paddingConstant:0];
  return {[l.graph() stencilWithSourceTensor:l.input(0) weightsTensor:l.input(1) descriptor:descriptor name:l.name()]};
}

// Gradient of a stencil with respect to its source. Operands: incoming gradient, weights, output_shape.
GraphTensors lower_data_gradient(Lowering& l) {
  const Taps taps = taps_of(l, l.result_dims(), l.dims(1));
  return {carried(l, l.dtype(), summed_as(l.dtype()), {l.input(0), l.input(1)}, [&](const GraphTensors& in) {
    const Weights weights(l, in[1], taps.count());
    std::vector<MPSGraphTensor*> slices;
    for (int64_t t = 0; t < taps.count(); ++t) slices.push_back(Steps(l).multiply(in[0], weights[t]));
    return taps.gathered(slices);
  })};
}

// Gradient of a stencil with respect to its weights. Operands: incoming gradient, source, output_shape. The gradient of
// each weight is a sum over all source elements that it multiplies.
GraphTensors lower_weights_gradient(Lowering& l) {
  const Taps taps = taps_of(l, l.dims(1), l.result_dims());
  return {carried(l, l.dtype(), summed_as(l.dtype()), {l.input(0), l.input(1)}, [&](const GraphTensors& in) {
    const Steps s(l);
    MPSGraphTensor* source = taps.padded(in[1]);
    const int64_t seen = element_count(taps.result_dims());
    GraphTensors sums;
    for (int64_t t = 0; t < taps.count(); ++t) {
      MPSGraphTensor* products = s.reshape(s.multiply(taps.slice(source, t), in[0]), {seen});
      sums.push_back([l.graph() reductionSumWithTensor:products axes:@[ @0 ] name:nil]);
    }
    return sums.size() == 1 ? sums[0] : s.concat(sums, 0);
  })};
}

}  // namespace

const Lowerings stencil_lowerings("stencil", [] {
  define_lowering("stencil_windows", lower_windows);
  define_lowering("stencil_windows_data_gradient", lower_data_gradient);
  define_lowering("stencil_windows_weights_gradient", lower_weights_gradient);
});

}  // namespace mpsgraph::metal
