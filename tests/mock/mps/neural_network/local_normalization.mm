// Spatial, cross-channel, and local contrast normalization, by the squares or by the mean and variance of a
// neighborhood.
//
// Pixels outside the image count as 0. A neighborhood of even size extends further toward the top left.
#include <cmath>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

struct Neighbourhood {
  int64_t height = 1, width = 1, channels = 1;
  double count() const { return static_cast<double>(height * width * channels); }

  // Call visit(index) for each element of the neighborhood that lies inside the image.
  template <class Visit>
  void for_each(const Images& images, int64_t n, int64_t y, int64_t x, int64_t c, const Visit& visit) const {
    for (int64_t j = y - height / 2; j < y - height / 2 + height; ++j)
      for (int64_t i = x - width / 2; i < x - width / 2 + width; ++i)
        for (int64_t k = c - channels / 2; k < c - channels / 2 + channels; ++k)
          if (images.inside(j, i) && k >= 0 && k < images.shape.channels) visit(images.index(n, j, i, k));
  }
};

template <class Visit>
void for_each_element(const Images& images, const Visit& visit) {
  for (int64_t n = 0; n < images.batch; ++n)
    for (int64_t y = 0; y < images.shape.height; ++y)
      for (int64_t x = 0; x < images.shape.width; ++x)
        for (int64_t c = 0; c < images.shape.channels; ++c) visit(n, y, x, c, images.index(n, y, x, c));
}

struct LocalNormalization : SameSize<LocalNormalization> {
  Neighbourhood around;
  bool is_contrast = false;
  float alpha = 1, beta = 5, delta = 1;
  float pm = 0, ps = 1, p0 = 1;  // parameters of contrast normalization

  struct Sums {
    double mean = 0, squares = 0;  // of the neighborhood, both divided by its size
  };
  Sums sums(const Images& images, int64_t n, int64_t y, int64_t x, int64_t c) const {
    Sums result;
    around.for_each(images, n, y, x, c, [&](size_t i) {
      result.mean += images.v[i] / around.count();
      result.squares += images.v[i] * images.v[i] / around.count();
    });
    return result;
  }
  double base(const Sums& s) const { return delta + alpha * (is_contrast ? s.squares - s.mean * s.mean : s.squares); }
  // Return the value that is subtracted from the source, which is 0 except for contrast normalization.
  double centre(const Sums& s) const { return is_contrast ? p0 * s.mean : 0; }

  Images run(Call& call) override {
    const Images& from = *call.sources[0];
    Images result(call.batch, call.shape);
    for_each_element(from, [&](int64_t n, int64_t y, int64_t x, int64_t c, size_t at) {
      const Sums s = sums(from, n, y, x, c);
      const double value = (from.v[at] - centre(s)) / std::pow(base(s), beta);
      result.v[at] = is_contrast ? pm + ps * value : value;
    });
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    const Images& from = *call.sources[0];
    Images result(call.batch, call.shape);
    for_each_element(from, [&](int64_t n, int64_t y, int64_t x, int64_t c, size_t at) {
      const Sums s = sums(from, n, y, x, c);
      const double error = of_result.v[at] * (is_contrast ? ps : 1), a = base(s);
      result.v[at] += error / std::pow(a, beta);
      const double by_mean = is_contrast ? p0 / std::pow(a, beta) / around.count() : 0;
      const double by_base = 2 * alpha * beta * (from.v[at] - centre(s)) / std::pow(a, beta + 1) / around.count();
      around.for_each(from, n, y, x, c, [&](size_t i) {
        result.v[i] -= error * (by_mean + by_base * (from.v[i] - (is_contrast ? s.mean : 0)));
      });
    });
    return result;
  }
};

std::shared_ptr<LocalNormalization> normalization(Class kind, NSUInteger size) {
  auto layer = std::make_shared<LocalNormalization>();
  const auto reach = static_cast<int64_t>(size);
  if (size < 1) misuse(@"%@: the kernel size must be at least 1, got 0", kind);
  if ([kind isSubclassOfClass:[MPSCNNCrossChannelNormalizationNode class]])
    layer->around.channels = reach;
  else
    layer->around.height = layer->around.width = reach;
  if ([kind isSubclassOfClass:[MPSCNNLocalContrastNormalizationNode class]]) {
    layer->is_contrast = true;
    layer->beta = 0.5f;
    layer->delta = 0x1p-10f;
  }
  return layer;
}

}  // namespace

#define SETTING(type, getter, setter, member)                                                             \
  -(type)getter {                                                                                         \
    return static_cast<type>(layer_of<LocalNormalization>(self).member);                                  \
  }                                                                                                       \
  -(void)setter : (type)value {                                                                           \
    layer_of<LocalNormalization>(self).member = static_cast<decltype(LocalNormalization::member)>(value); \
  }
#define SIZE(getter, setter, part)                                                  \
  -(NSUInteger)getter {                                                             \
    return static_cast<NSUInteger>(layer_of<LocalNormalization>(self).around.part); \
  }                                                                                 \
  -(void)setter : (NSUInteger)value {                                               \
    layer_of<LocalNormalization>(self).around.part = static_cast<int64_t>(value);   \
  }
#define COMMON                           \
  SETTING(float, alpha, setAlpha, alpha) \
  SETTING(float, beta, setBeta, beta)    \
  SETTING(float, delta, setDelta, delta)
#define CONTRAST                \
  SETTING(float, pm, setPm, pm) \
  SETTING(float, ps, setPs, ps) \
  SETTING(float, p0, setP0, p0)
#define PLANE                              \
  SIZE(kernelWidth, setKernelWidth, width) \
  SIZE(kernelHeight, setKernelHeight, height)

@implementation MPSCNNNormalizationNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  misuse(@"initWithSource: of %@: the default kernel size is not documented; specify it explicitly", [self class]);
}
- (instancetype)initWithSource:(MPSNNImageNode*)source kernelSize:(NSUInteger)size {
  return [super initWithLayer:normalization([self class], size)
                      sources:@[ source ]
                   stateClass:[MPSNNGradientStateNode class]];
}
COMMON
@end

#define NODES(name, extra)                                                                                           \
  @implementation MPSCNN                                                                                             \
  ##name##NormalizationNode + (instancetype)nodeWithSource : (MPSNNImageNode*)source kernelSize : (NSUInteger)size { \
    return [[self alloc] initWithSource:source kernelSize:size];                                                     \
  }                                                                                                                  \
  -(instancetype)initWithSource : (MPSNNImageNode*)source kernelSize : (NSUInteger)size {                            \
    return [super initWithSource:source kernelSize:size];                                                            \
  }                                                                                                                  \
  +(Class)gradientNodeClass {                                                                                        \
    return [MPSCNN##name##NormalizationGradientNode class];                                                          \
  }                                                                                                                  \
  extra @end                                                                                                         \
  @implementation MPSCNN                                                                                             \
  ##name##NormalizationGradientNode COMMON @end
NODES(Spatial, PLANE)
NODES(LocalContrast, PLANE CONTRAST)
NODES(CrossChannel, SIZE(kernelSizeInFeatureChannels, setKernelSizeInFeatureChannels, channels))

#undef SETTING
#undef SIZE
#undef COMMON
#undef CONTRAST
#undef PLANE
#undef NODES
