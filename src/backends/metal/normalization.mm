// Mean, variance, normalization, and its gradients.
//
// MPSGraph's operations are used if the operands have the form that Apple documents: moments as reductions return them,
// and gamma and beta with as many axes as the source. In two cases, the gradient of the source is composed instead: if
// the gradients of gamma and beta, which Apple's operation needs, are not given; and if gamma varies along the
// normalized axes, because Apple documents only a gamma that is constant along these axes.
#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

Ints axes_of(const Lowering& l, size_t source) { return l.rank(source) ? l.axes("axes", source) : Ints{0}; }

// Reshape operand i to have as many axes as the source.
Term like_source(const Lowering& l, size_t i, size_t source) {
  Dims dims = l.dims(i);
  if (dims.size() == l.dims(source).size()) return Term::input(l, i);
  dims.insert(dims.begin(), l.dims(source).size() - dims.size(), 1);
  return Term::input(l, i).reshape(dims);
}
Term wide_like_source(const Lowering& l, size_t i, size_t source) { return wide(l, like_source(l, i, source)); }

float epsilon_of(const Lowering& l) { return static_cast<float>(l.attributes().real("epsilon")); }

double count_along(const Lowering& l, size_t source) {
  double count = 1;
  for (const int64_t axis : axes_of(l, source))
    if (l.rank(source)) count *= static_cast<double>(l.dims(source)[static_cast<size_t>(axis)]);
  return count;
}

// Means and variances of many numbers are composed from sums in steps, because MPSGraph's are wrong now and then.
Term mean(const Term& x, const Ints& axes) {
  if (is_long_sum(x, axes)) {
    const Dims dims = dims_of(x.tensor().shape);
    double count = 1;
    for (const int64_t axis : axes) count *= static_cast<double>(dims[static_cast<size_t>(axis)]);
    return sum(x, axes) / count;
  }
  return x.with([x.graph() meanOfTensor:x.tensor() axes:numbers(axes) name:nil]);
}

GraphTensors lower_mean(Lowering& l) {
  const Ints axes = axes_of(l, 0);
  if (!is_complex(l.dtype())) return narrow(l, mean(wide_input(l), axes));
  const Parts z = parts_of(l, l.input());
  return {complex_tensor(l, {mean(z.re, axes), mean(z.im, axes)})};
}

GraphTensors lower_variance(Lowering& l) {
  const Ints axes = axes_of(l, 0);
  const Term x = wide_input(l);
  const bool composed = is_long_sum(x, axes);
  if (l.count() == 1 && composed) return narrow(l, mean(square(x - mean(x, axes)), axes));
  if (l.count() == 1)
    return narrow(l, x.with([l.graph() varianceOfTensor:x.tensor() axes:numbers(axes) name:l.name()]));
  const Term given = wide_like_source(l, 1, 0);
  if (composed || l.dims(1) != l.result_dims()) return narrow(l, mean(square(x - given), axes));
  return narrow(l, x.with([l.graph() varianceOfTensor:x.tensor()
                                           meanTensor:given.tensor()
                                                 axes:numbers(axes)
                                                 name:l.name()]));
}

GraphTensors lower_normalization(Lowering& l) {
  const bool gamma = l.attributes().boolean("has_gamma"), beta = l.attributes().boolean("has_beta");
  const auto parameter = [&](bool has, size_t i) { return has ? like_source(l, i, 0).tensor() : nil; };
  return {[l.graph() normalizationWithTensor:l.input()
                                  meanTensor:like_source(l, 1, 0).tensor()
                              varianceTensor:like_source(l, 2, 0).tensor()
                                 gammaTensor:parameter(gamma, 3)
                                  betaTensor:parameter(beta, gamma ? 4 : 3)
                                     epsilon:epsilon_of(l)
                                        name:l.name()]};
}

// Operands of the gradients: incoming, source, mean, variance, [gamma,] [gamma_gradient, beta_gradient].
GraphTensors lower_gamma_gradient(Lowering& l) {
  const Term incoming = wide_input(l, 0), source = wide_input(l, 1);
  const Term mean = wide_like_source(l, 2, 1), variance = wide_like_source(l, 3, 1);
  if (is_long_sum(source, axes_of(l, 1))) {
    const Term normal = (source - mean) / square_root(variance + l.attributes().real("epsilon"));
    return narrow(l, sum(incoming * normal, axes_of(l, 1)));
  }
  return narrow(l, source.with([l.graph() normalizationGammaGradientWithIncomingGradientTensor:incoming.tensor()
                                                                                  sourceTensor:source.tensor()
                                                                                    meanTensor:mean.tensor()
                                                                                varianceTensor:variance.tensor()
                                                                                 reductionAxes:numbers(axes_of(l, 1))
                                                                                       epsilon:epsilon_of(l)
                                                                                          name:l.name()]));
}

GraphTensors lower_beta_gradient(Lowering& l) {
  const Term incoming = wide_input(l, 0), source = wide_input(l, 1);
  if (is_long_sum(source, axes_of(l, 1))) return narrow(l, sum(incoming, axes_of(l, 1)));
  return narrow(l, source.with([l.graph() normalizationBetaGradientWithIncomingGradientTensor:incoming.tensor()
                                                                                 sourceTensor:source.tensor()
                                                                                reductionAxes:numbers(axes_of(l, 1))
                                                                                         name:l.name()]));
}

// Let n = (x - mean) r with r = 1 / sqrt(variance + epsilon), let g be the incoming gradient, and let h = g gamma. Then
// the gradient of x is
//   r (h - mean(h) - n mean(h n)),
// or, if the sums d_gamma and d_beta over `count` elements are given,
//   gamma r (g - d_beta / count - n d_gamma / count).
GraphTensors composed_gradient(Lowering& l, bool gamma, bool sums) {
  const Ints axes = axes_of(l, 1);
  const Term g = wide_input(l, 0), root = square_root(wide_like_source(l, 3, 1) + l.attributes().real("epsilon"));
  const Term n = (wide_input(l, 1) - wide_like_source(l, 2, 1)) / root;
  if (sums) {
    const size_t first = 4 + gamma;
    const double count = count_along(l, 1);
    const Term centred = g - wide_like_source(l, first + 1, 1) / count - n * (wide_like_source(l, first, 1) / count);
    return narrow(l, (gamma ? wide_like_source(l, 4, 1) * centred : centred) / root);
  }
  const Term h = gamma ? g * wide_like_source(l, 4, 1) : g;
  return narrow(l, (h - mean(h, axes) - n * mean(h * n, axes)) / root);
}

// Whether gamma varies along the normalized axes. Apple's gradient is only valid if gamma does not.
bool varies_along_axes(const Lowering& l) {
  const Dims& dims = l.dims(4);
  const auto missing = static_cast<int64_t>(l.dims(1).size() - dims.size());
  return std::ranges::any_of(
      axes_of(l, 1), [&](int64_t axis) { return axis >= missing && dims[static_cast<size_t>(axis - missing)] != 1; });
}

GraphTensors lower_normalization_gradient(Lowering& l) {
  const bool gamma = l.attributes().boolean("has_gamma"), sums = l.count() > 4u + gamma;
  if (!gamma || !sums || varies_along_axes(l)) return composed_gradient(l, gamma, sums);
  return {[l.graph() normalizationGradientWithIncomingGradientTensor:l.input(0)
                                                        sourceTensor:l.input(1)
                                                          meanTensor:like_source(l, 2, 1).tensor()
                                                      varianceTensor:like_source(l, 3, 1).tensor()
                                                         gammaTensor:like_source(l, 4, 1).tensor()
                                                 gammaGradientTensor:like_source(l, 5, 1).tensor()
                                                  betaGradientTensor:like_source(l, 6, 1).tensor()
                                                       reductionAxes:numbers(axes_of(l, 1))
                                                             epsilon:epsilon_of(l)
                                                                name:l.name()]};
}

}  // namespace

const Lowerings normalization_lowerings("normalization", [] {
  define_lowering("mean", lower_mean);
  define_lowering("variance", lower_variance);
  define_lowering("normalization", lower_normalization);
  define_lowering("normalization_gamma_gradient", lower_gamma_gradient);
  define_lowering("normalization_beta_gradient", lower_beta_gradient);
  define_lowering("normalization_gradient", lower_normalization_gradient);
});

}  // namespace mpsgraph::metal
