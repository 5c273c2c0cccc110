// Upsampling by integer factors and its gradients, and scaling to a size.
//
// Bilinear upsampling without aligned corners samples position i / factor, as an application's test expects, and
// repeats the last pixel; Apple does not document how it samples the border. Scaling samples relative to pixel centers.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

enum class ResampleKind { nearest, bilinear, lanczos };

using Taps = std::vector<std::pair<int64_t, double>>;  // indices and weights

void add_tap(Taps& taps, int64_t at, int64_t size, double weight) {
  if (weight != 0) taps.emplace_back(std::clamp<int64_t>(at, 0, size - 1), weight);
}

Taps taps_at(double place, int64_t size, ResampleKind kind) {
  Taps taps;
  const auto low = static_cast<int64_t>(std::floor(place));
  const double part = place - static_cast<double>(low);
  if (kind == ResampleKind::nearest) {
    add_tap(taps, low, size, 1);
  } else if (kind == ResampleKind::bilinear) {
    add_tap(taps, low, size, 1 - part);
    add_tap(taps, low + 1, size, part);
  } else {
    constexpr double pi = 3.14159265358979323846;
    double sum = 0;
    for (int64_t i = low - 2; i <= low + 3; ++i) {
      const double d = (place - static_cast<double>(i)) * pi;
      const double weight = d == 0 ? 1 : std::fabs(d) >= 3 * pi ? 0 : 3 * std::sin(d) * std::sin(d / 3) / (d * d);
      add_tap(taps, i, size, weight);
      sum += weight;
    }
    for (auto& tap : taps) tap.second /= sum;
  }
  return taps;
}

// Layer whose result is a weighted sum of a few source rows and columns for each pixel.
template <class L>
struct Resampling : LayerOf<L> {
  template <class Visit>
  static void for_each(const Call& call, const std::array<std::vector<Taps>, 2>& taps, const Visit& visit) {
    const Images from(call.batch, call.shapes[0]), to(call.batch, call.shape);
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < to.shape.height; ++y)
        for (int64_t x = 0; x < to.shape.width; ++x)
          for (const auto& [sy, wy] : taps[0][static_cast<size_t>(y)])
            for (const auto& [sx, wx] : taps[1][static_cast<size_t>(x)])
              for (int64_t c = 0; c < to.shape.channels; ++c)
                visit(to.index(n, y, x, c), from.index(n, sy, sx, c), wy * wx);
  }
  std::array<std::vector<Taps>, 2> all_taps(const Call& call) const {
    const Shape &from = call.shapes[0], &to = call.shape;
    std::array<std::vector<Taps>, 2> result;
    const auto* own = static_cast<const L*>(this);
    for (int64_t y = 0; y < to.height; ++y)
      result[0].push_back(taps_at(own->place(call, 0, y, from.height, to.height), from.height, own->kind));
    for (int64_t x = 0; x < to.width; ++x)
      result[1].push_back(taps_at(own->place(call, 1, x, from.width, to.width), from.width, own->kind));
    return result;
  }
  Images run(Call& call) override {
    Images result(call.batch, call.shape);
    for_each(call, all_taps(call),
             [&](size_t to, size_t from, double weight) { result.v[to] += weight * call.sources[0]->v[from]; });
    return result;
  }
  Images transposed(Call& call, const Images& of_result) const {
    Images result(call.batch, call.shapes[0]);
    for_each(call, all_taps(call),
             [&](size_t to, size_t from, double weight) { result.v[from] += weight * of_result.v[to]; });
    return result;
  }
};

struct Upsampling : Resampling<Upsampling> {
  ResampleKind kind = ResampleKind::nearest;
  NSUInteger x = 1, y = 1;
  bool align = false;

  Shape prepare(Call& call) override {
    if (x < 1 || y < 1) misuse(@"%@: a factor of 0", call.filter.name);
    const Shape& from = call.shapes[0];
    return {from.height * static_cast<int64_t>(y), from.width * static_cast<int64_t>(x), from.channels};
  }
  double place(const Call&, int axis, int64_t at, int64_t from, int64_t to) const {
    if (align && to > 1) return static_cast<double>(at * (from - 1)) / static_cast<double>(to - 1);
    return static_cast<double>(at) / static_cast<double>(axis == 0 ? y : x);
  }
  Images gradient(Call& call, const Images& of_result, size_t) override { return transposed(call, of_result); }
};

struct Scaling : Resampling<Scaling> {
  ResampleKind kind = ResampleKind::bilinear;
  MTLSize size = {1, 1, 1};
  id<MPSImageTransformProvider> provider = nil;

  // The provider runs while work is encoded. Its image has the size of the source, but no contents.
  Shape prepare(Call& call) override {
    const Shape& from = call.shapes[0];
    if (size.width < 1 || size.height < 1)
      misuse(@"%@: the result size must be at least 1, got %lu x %lu", call.filter.name, size.height, size.width);
    if (provider) {
      MPSImage* image = [[MPSImage alloc]
           initWithDevice:call.device
          imageDescriptor:[MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat16
                                                                         width:static_cast<NSUInteger>(from.width)
                                                                        height:static_cast<NSUInteger>(from.height)
                                                               featureChannels:static_cast<NSUInteger>(from.channels)]];
      const MPSScaleTransform transform = [provider transformForSourceImage:image
                                                                     handle:call.filter->sources[0].handle];
      call.kept = std::make_shared<MPSScaleTransform>(transform);
    }
    return {static_cast<int64_t>(size.height), static_cast<int64_t>(size.width), from.channels};
  }
  double place(const Call& call, int axis, int64_t at, int64_t from, int64_t to) const {
    double scale = static_cast<double>(to) / static_cast<double>(from), shift = 0;
    if (const auto* given = static_cast<const MPSScaleTransform*>(call.kept.get())) {
      scale = axis == 0 ? given->scaleY : given->scaleX;
      shift = axis == 0 ? given->translateY : given->translateX;
    }
    return (static_cast<double>(at) + 0.5 - shift) / scale - 0.5;
  }
};

std::shared_ptr<Upsampling> upsampling(ResampleKind kind, NSUInteger x, NSUInteger y, bool align) {
  auto layer = std::make_shared<Upsampling>();
  layer->kind = kind;
  layer->x = x;
  layer->y = y;
  layer->align = align;
  return layer;
}

}  // namespace

#define FACTORS                                               \
  -(double)scaleFactorX {                                     \
    return static_cast<double>(layer_of<Upsampling>(self).x); \
  }                                                           \
  -(double)scaleFactorY {                                     \
    return static_cast<double>(layer_of<Upsampling>(self).y); \
  }

@implementation MPSCNNUpsamplingNearestNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y {
  return [[self alloc] initWithSource:source integerScaleFactorX:x integerScaleFactorY:y];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y {
  return [super initWithLayer:upsampling(ResampleKind::nearest, x, y, false)
                      sources:@[ source ]
                   stateClass:[MPSNNGradientStateNode class]];
}
FACTORS
+ (Class)gradientNodeClass {
  return [MPSCNNUpsamplingNearestGradientNode class];
}
@end
@implementation MPSCNNUpsamplingNearestGradientNode
FACTORS
@end

@implementation MPSCNNUpsamplingBilinearNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y {
  return [[self alloc] initWithSource:source integerScaleFactorX:x integerScaleFactorY:y alignCorners:NO];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y
                  alignCorners:(BOOL)align {
  return [[self alloc] initWithSource:source integerScaleFactorX:x integerScaleFactorY:y alignCorners:align];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y {
  return [self initWithSource:source integerScaleFactorX:x integerScaleFactorY:y alignCorners:NO];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
           integerScaleFactorX:(NSUInteger)x
           integerScaleFactorY:(NSUInteger)y
                  alignCorners:(BOOL)align {
  return [super initWithLayer:upsampling(ResampleKind::bilinear, x, y, align)
                      sources:@[ source ]
                   stateClass:[MPSNNGradientStateNode class]];
}
FACTORS
- (BOOL)alignCorners {
  return layer_of<Upsampling>(self).align;
}
+ (Class)gradientNodeClass {
  return [MPSCNNUpsamplingBilinearGradientNode class];
}
@end
@implementation MPSCNNUpsamplingBilinearGradientNode
FACTORS
@end

@implementation MPSNNScaleNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source outputSize:(MTLSize)size {
  return [[self alloc] initWithSource:source outputSize:size];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
             transformProvider:(id<MPSImageTransformProvider>)provider
                    outputSize:(MTLSize)size {
  return [[self alloc] initWithSource:source transformProvider:provider outputSize:size];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source outputSize:(MTLSize)size {
  return [self initWithSource:source transformProvider:nil outputSize:size];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
             transformProvider:(id<MPSImageTransformProvider>)provider
                    outputSize:(MTLSize)size {
  auto layer = std::make_shared<Scaling>();
  layer->kind = [self isKindOfClass:[MPSNNLanczosScaleNode class]] ? ResampleKind::lanczos : ResampleKind::bilinear;
  layer->provider = provider;
  layer->size = size;
  return [super initWithLayer:layer sources:@[ source ] stateClass:Nil];
}
@end
@implementation MPSNNBilinearScaleNode
@end
@implementation MPSNNLanczosScaleNode
@end
