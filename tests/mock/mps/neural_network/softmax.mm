// Softmax and log-softmax over the channels of each pixel. Their gradients are computed from the forward results.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

struct SoftMax : SameSize<SoftMax> {
  bool is_logarithm = false;

  Images run(Call& call) override {
    Images result = *call.sources[0];
    const auto channels = static_cast<size_t>(call.shape.channels);
    for (size_t first = 0; first < result.v.size(); first += channels) {
      const auto from = result.v.begin() + static_cast<ptrdiff_t>(first);
      const auto to = from + static_cast<ptrdiff_t>(channels);
      const double most = *std::max_element(from, to);
      double sum = 0;
      for (auto at = from; at != to; ++at) sum += std::exp(*at - most);
      for (auto at = from; at != to; ++at) *at = is_logarithm ? *at - most - std::log(sum) : std::exp(*at - most) / sum;
    }
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    Images result = of_result;
    const auto channels = static_cast<size_t>(call.shape.channels);
    const std::vector<double>& y = call.result->v;
    for (size_t first = 0; first < result.v.size(); first += channels) {
      double sum = 0;
      for (size_t i = first; i < first + channels; ++i) sum += of_result.v[i] * (is_logarithm ? 1 : y[i]);
      for (size_t i = first; i < first + channels; ++i)
        result.v[i] = is_logarithm ? of_result.v[i] - std::exp(y[i]) * sum : y[i] * (of_result.v[i] - sum);
    }
    return result;
  }
};

}  // namespace

@implementation MPSCNNSoftMaxNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  return [super initWithLayer:std::make_shared<SoftMax>()
                      sources:@[ source ]
                   stateClass:[MPSNNGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSCNNSoftMaxGradientNode class];
}
@end

@implementation MPSCNNLogSoftMaxNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  auto layer = std::make_shared<SoftMax>();
  layer->is_logarithm = true;
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSCNNLogSoftMaxGradientNode class];
}
@end

@implementation MPSCNNSoftMaxGradientNode
@end
@implementation MPSCNNLogSoftMaxGradientNode
@end
