// Gram matrices: for each pair of feature channels, the sum of their products over all pixels, times alpha.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

struct Gram : LayerOf<Gram> {
  double alpha = 1;
  id<MPSNNGramMatrixCallback> callback = nil;

  // The callback runs while work is encoded. Its images have the right sizes, but no contents.
  Shape prepare(Call& call) override {
    const Shape &from = call.shapes[0], result = {1, from.channels, from.channels};
    const auto image = [&](const Shape& shape) {
      return [[MPSImage alloc]
           initWithDevice:call.device
          imageDescriptor:[MPSImageDescriptor
                              imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat16
                                                         width:static_cast<NSUInteger>(shape.width)
                                                        height:static_cast<NSUInteger>(shape.height)
                                               featureChannels:static_cast<NSUInteger>(shape.channels)]];
    };
    const double now = callback ? [callback alphaForSourceImage:image(from) destinationImage:image(result)] : alpha;
    call.kept = std::make_shared<double>(now);
    return result;
  }
  // Call visit(index of the result, index of one channel, index of the other channel) for each pixel and pair of
  // channels.
  template <class Visit>
  static void for_each(const Call& call, const Visit& visit) {
    const Images from(call.batch, call.shapes[0]), to(call.batch, call.shape);
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < from.shape.height; ++y)
        for (int64_t x = 0; x < from.shape.width; ++x)
          for (int64_t f = 0; f < from.shape.channels; ++f)
            for (int64_t c = 0; c < from.shape.channels; ++c)
              visit(to.index(n, 0, f, c), from.index(n, y, x, f), from.index(n, y, x, c));
  }
  Images run(Call& call) override {
    const double by = *static_cast<double*>(call.kept.get());
    const std::vector<double>& x = call.sources[0]->v;
    Images result(call.batch, call.shape);
    for_each(call, [&](size_t to, size_t a, size_t b) { result.v[to] += by * x[a] * x[b]; });
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    const double by = *static_cast<double*>(call.kept.get());
    const std::vector<double>& x = call.sources[0]->v;
    Images result(call.batch, call.shapes[0]);
    for_each(call, [&](size_t to, size_t a, size_t b) {
      result.v[a] += by * of_result.v[to] * x[b];
      result.v[b] += by * of_result.v[to] * x[a];
    });
    return result;
  }
};

}  // namespace

@implementation MPSNNGramMatrixCalculationNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source alpha:(float)alpha {
  return [[self alloc] initWithSource:source alpha:alpha];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  return [self initWithSource:source alpha:1];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source alpha:(float)alpha {
  auto layer = std::make_shared<Gram>();
  layer->alpha = alpha;
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
- (float)alpha {
  return static_cast<float>(layer_of<Gram>(self).alpha);
}
- (id<MPSNNGramMatrixCallback>)propertyCallBack {
  return layer_of<Gram>(self).callback;
}
- (void)setPropertyCallBack:(id<MPSNNGramMatrixCallback>)callback {
  layer_of<Gram>(self).callback = callback;
}
+ (Class)gradientNodeClass {
  return [MPSNNGramMatrixCalculationGradientNode class];
}
@end
@implementation MPSNNGramMatrixCalculationGradientNode
- (float)alpha {
  return static_cast<float>(layer_of<Gram>(self).alpha);
}
@end
