// Dropout: each element is kept with the given probability and divided by it.
//
// Each encode draws a new mask, which its gradient reuses. Successive encodes with the same seed use different masks,
// because Apple documents no formula.
#include <cmath>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

struct Dropout : SameSize<Dropout> {
  double keep = 0.5;
  NSUInteger seed = 0;
  MTLSize stride = {1, 1, 1};  // 0 shares one decision along a dimension
  std::shared_ptr<uint64_t> drawn = std::make_shared<uint64_t>(0);

  std::shared_ptr<Layer> copy() const override {
    auto made = std::make_shared<Dropout>(*this);
    made->drawn = std::make_shared<uint64_t>(seed * 0x9E3779B97F4A7C15u);
    return made;
  }

  double uniform() {  // splitmix64 generator
    uint64_t z = *drawn += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  Images run(Call& call) override {
    Images mask(call.batch, call.shape);
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < call.shape.height; ++y)
        for (int64_t x = 0; x < call.shape.width; ++x)
          for (int64_t c = 0; c < call.shape.channels; ++c) {
            const bool repeats = (!stride.height && y) || (!stride.width && x) || (!stride.depth && c);
            mask.at(n, y, x, c) = repeats
                                      ? mask.at(n, stride.height ? y : 0, stride.width ? x : 0, stride.depth ? c : 0)
                                  : uniform() < keep ? 1 / keep
                                                     : 0;
          }
    call.kept = std::make_shared<Images>(mask);
    return times(*call.sources[0], mask);
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    return times(of_result, *static_cast<Images*>(call.kept.get()));
  }
  static Images times(Images images, const Images& mask) {
    for (size_t i = 0; i < images.v.size(); ++i) images.v[i] *= mask.v[i];
    return images;
  }
};

}  // namespace

@implementation MPSCNNDropoutNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source keepProbability:(float)keep {
  return [[self alloc] initWithSource:source keepProbability:keep];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
               keepProbability:(float)keep
                          seed:(NSUInteger)seed
            maskStrideInPixels:(MTLSize)stride {
  return [[self alloc] initWithSource:source keepProbability:keep seed:seed maskStrideInPixels:stride];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  misuse(@"initWithSource: of %@: default parameters are not documented; specify them explicitly", [self class]);
}
- (instancetype)initWithSource:(MPSNNImageNode*)source keepProbability:(float)keep {
  misuse(@"initWithSource:keepProbability: of %@: other default parameters are not documented; specify them explicitly",
         [self class]);
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
               keepProbability:(float)keep
                          seed:(NSUInteger)seed
            maskStrideInPixels:(MTLSize)stride {
  if (!(keep > 0 && keep < 1)) misuse(@"%@: keepProbability must be in (0, 1), got %g", [self class], keep);
  if (stride.width > 1 || stride.height > 1 || stride.depth > 1)
    misuse(@"%@: maskStrideInPixels must be 0 or 1 along each dimension", [self class]);
  auto layer = std::make_shared<Dropout>();
  layer->keep = keep;
  layer->seed = seed;
  layer->stride = stride;
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSCNNDropoutGradientNode class];
}
- (float)keepProbability {
  return static_cast<float>(layer_of<Dropout>(self).keep);
}
- (NSUInteger)seed {
  return layer_of<Dropout>(self).seed;
}
- (MTLSize)maskStrideInPixels {
  return layer_of<Dropout>(self).stride;
}
@end

@implementation MPSCNNDropoutGradientNode
- (float)keepProbability {
  return static_cast<float>(layer_of<Dropout>(self).keep);
}
- (NSUInteger)seed {
  return layer_of<Dropout>(self).seed;
}
- (MTLSize)maskStrideInPixels {
  return layer_of<Dropout>(self).stride;
}
@end
