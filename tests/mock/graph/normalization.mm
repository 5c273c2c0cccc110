// Moments, normalization, and its gradients.
//
// Source: Apple's descriptions. "Mean and variance tensors should be outputs of" the corresponding methods, so a
// variance is the mean of squared differences, and epsilon is "added to the variance"; gamma and beta "match the input
// along at least one dimension and will be broadcast along the rest". The source gradient uses the gradients of gamma
// and beta in place of the sums over the axes, which is valid for batches, where gamma is constant along the axes.
#include <cmath>
#include <set>

#include "graph/elementwise.h"

using namespace mock;

namespace {

struct Axes {
  std::set<size_t> reduced;
  Dims dims;  // of the reduced tensor
  double count = 1;

  Axes(NSArray<NSNumber*>* axes, const Value& x) : dims(x.dims) {
    if (axes.count == 0) misuse(@"normalization: needs at least one axis, got none");
    for (NSNumber* axis in axes) reduced.insert(axis_of(axis.longLongValue, x.rank()));
    for (const size_t axis : reduced) {
      count *= static_cast<double>(dims[axis]);
      dims[axis] = 1;
    }
  }

  // Sum term(i) along the axes, where i runs over the elements of x. Float16 is summed in float16, because Apple does
  // not document a wider type.
  template <class Function>
  Value sum(const Value& x, Function term, double divisor = 1) const {
    Dims strides = strides_of(dims);
    for (const size_t axis : reduced) strides[axis] = 0;
    Value result(x.type, dims);
    std::vector<double> totals(static_cast<size_t>(result.count()));
    int64_t i = 0;
    for_each_position(x.dims, [&](const Dims& position) {
      const int64_t at = offset_of(position, strides);
      double& total = totals[static_cast<size_t>(at)];
      total += term(i++);
      if (element_bytes(x.type) > 2) return;
      result.set(at, total);
      total = result.real(at);
    });
    divisor /= long_sum_error(static_cast<int64_t>(count));
    for (size_t at = 0; at < totals.size(); ++at) result.set(static_cast<int64_t>(at), totals[at] / divisor);
    return result;
  }
};

// Broadcast an operand, which must have as many axes as the source, each of the same size or 1.
Value spread(const Value& parameter, const Value& source) {
  require_same_type(@"normalization", {parameter, source});
  require(@"normalization", parameter, Takes::floats);
  if (parameter.rank() != source.rank() || broadcast_dims(parameter.dims, source.dims) != source.dims)
    misuse(@"normalization: a parameter of shape %@ does not broadcast to the source %@", text_of(parameter.dims),
           text_of(source.dims));
  return parameter.broadcast(source.dims);
}

double normal(const Value& x, const Value& mean, const Value& variance, double epsilon, int64_t i) {
  return (x.real(i) - mean.real(i)) / std::sqrt(variance.real(i) + epsilon);
}

Value mean_of(const Value& x, NSArray<NSNumber*>* axes) {
  require(@"mean", x, Takes::floats);
  const Axes along(axes, x);
  return along.sum(x, [&](int64_t i) { return x.real(i); }, along.count);
}

Value variance_of(const Value& x, const Value& mean, NSArray<NSNumber*>* axes) {
  const Axes along(axes, x);
  if (mean.dims != along.dims)
    misuse(@"variance: the mean must have shape %@ for the source %@, got %@", text_of(along.dims), text_of(x.dims),
           text_of(mean.dims));
  const Value centre = spread(mean, x);
  return along.sum(
      x, [&](int64_t i) { return (x.real(i) - centre.real(i)) * (x.real(i) - centre.real(i)); }, along.count);
}

}  // namespace

@implementation MPSGraph (MockNormalization)

- (MPSGraphTensor*)meanOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  return add_one(self, @"mean", name, {tensor}, [=](const Values& in) { return mean_of(in[0], axes); });
}

- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  return add_one(self, @"variance", name, {tensor},
                 [=](const Values& in) { return variance_of(in[0], mean_of(in[0], axes), axes); });
}

- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor
                         meanTensor:(MPSGraphTensor*)mean
                               axes:(NSArray<NSNumber*>*)axes
                               name:(NSString*)name {
  return add_one(self, @"variance", name, {tensor, mean},
                 [=](const Values& in) { return variance_of(in[0], in[1], axes); });
}

- (MPSGraphTensor*)normalizationWithTensor:(MPSGraphTensor*)tensor
                                meanTensor:(MPSGraphTensor*)mean
                            varianceTensor:(MPSGraphTensor*)variance
                               gammaTensor:(MPSGraphTensor*)gamma
                                betaTensor:(MPSGraphTensor*)beta
                                   epsilon:(float)epsilon
                                      name:(NSString*)name {
  std::vector<MPSGraphTensor*> operands{tensor, mean, variance};
  if (gamma) operands.push_back(gamma);
  if (beta) operands.push_back(beta);
  const bool scaled = gamma != nil, shifted = beta != nil;
  return add_one(self, @"normalization", name, operands, [=](const Values& in) {
    Values all;
    for (const Value& operand : in) all.push_back(spread(operand, in[0]));
    Value result(in[0].type, in[0].dims);
    for (int64_t i = 0; i < result.count(); ++i) {
      const double n = normal(all[0], all[1], all[2], epsilon, i);
      result.set(i, n * (scaled ? all[3].real(i) : 1) + (shifted ? all.back().real(i) : 0));
    }
    return result;
  });
}

- (MPSGraphTensor*)normalizationGammaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                           sourceTensor:(MPSGraphTensor*)source
                                                             meanTensor:(MPSGraphTensor*)mean
                                                         varianceTensor:(MPSGraphTensor*)variance
                                                          reductionAxes:(NSArray<NSNumber*>*)axes
                                                                epsilon:(float)epsilon
                                                                   name:(NSString*)name {
  return add_one(self, @"normalizationGammaGradient", name, {incoming, source, mean, variance}, [=](const Values& in) {
    if (in[0].dims != in[1].dims)
      misuse(@"normalization: incoming gradient %@ does not match the source %@", text_of(in[0].dims),
             text_of(in[1].dims));
    const Value centre = spread(in[2], in[1]), width = spread(in[3], in[1]);
    return Axes(axes, in[1]).sum(in[1], [&](int64_t i) {
      return in[0].real(i) * normal(in[1], centre, width, epsilon, i);
    });
  });
}

- (MPSGraphTensor*)normalizationBetaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                          sourceTensor:(MPSGraphTensor*)source
                                                         reductionAxes:(NSArray<NSNumber*>*)axes
                                                                  name:(NSString*)name {
  return add_one(self, @"normalizationBetaGradient", name, {incoming, source}, [=](const Values& in) {
    if (in[0].dims != in[1].dims)
      misuse(@"normalization: incoming gradient %@ does not match the source %@", text_of(in[0].dims),
             text_of(in[1].dims));
    return Axes(axes, in[1]).sum(in[1], [&](int64_t i) { return in[0].real(i); });
  });
}

- (MPSGraphTensor*)normalizationGradientWithIncomingGradientTensor:(MPSGraphTensor*)incoming
                                                      sourceTensor:(MPSGraphTensor*)source
                                                        meanTensor:(MPSGraphTensor*)mean
                                                    varianceTensor:(MPSGraphTensor*)variance
                                                       gammaTensor:(MPSGraphTensor*)gamma
                                               gammaGradientTensor:(MPSGraphTensor*)gamma_gradient
                                                betaGradientTensor:(MPSGraphTensor*)beta_gradient
                                                     reductionAxes:(NSArray<NSNumber*>*)axes
                                                           epsilon:(float)epsilon
                                                              name:(NSString*)name {
  if (!gamma || !gamma_gradient || !beta_gradient)
    misuse(@"normalizationGradient: gamma and its gradients are required, got nil");
  return add_one(
      self, @"normalizationGradient", name, {incoming, source, mean, variance, gamma, gamma_gradient, beta_gradient},
      [=](const Values& in) {
        const Axes along(axes, in[1]);
        for (const size_t axis : along.reduced)
          if (in[4].rank() != in[1].rank() || in[4].dims[axis] != 1)
            misuse(@"normalizationGradient: a gamma that varies along the normalized axes is not documented, got %@",
                   text_of(in[4].dims));
        Values all;
        for (const Value& operand : in) all.push_back(spread(operand, in[1]));
        Value result(in[1].type, in[1].dims);
        for (int64_t i = 0; i < result.count(); ++i) {
          const double n = normal(all[1], all[2], all[3], epsilon, i);
          const double centred = all[0].real(i) - all[6].real(i) / along.count - n * all[5].real(i) / along.count;
          result.set(i, all[4].real(i) / std::sqrt(all[3].real(i) + epsilon) * centred);
        }
        return result;
      });
}
@end
