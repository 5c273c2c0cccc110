// Pooling nodes and their gradients: maximum, dilated maximum, average, and L2 norm.
//
// Pooling nodes use the clamp edge mode: windows shrink to the image, and an average only includes pixels inside it. A
// window entirely outside gives 0. If a maximum occurs several times, one element receives the gradient. Apple does not
// specify which; here it is the last.
#include <cmath>

#include "faults.h"
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

enum class PoolingKind { maximum, average, norm };

struct Pooling : LayerOf<Pooling> {
  PoolingKind kind = PoolingKind::maximum;
  Axis y, x;

  Shape prepare(Call& call) override {
    if (y.kernel < 1 || x.kernel < 1 || y.stride < 1 || x.stride < 1 || y.dilation < 1 || x.dilation < 1)
      misuse(@"%@: sizes, strides, and dilations must be at least 1", call.filter.name);
    call.windows = {y, x, MPSImageEdgeModeClamp};
    return apply_padding(call, call.shapes[0], call.shapes[0].channels);
  }

  // Call visit(index of the source) for each pixel of a window.
  template <class Visit>
  void for_each_pixel(const Call& call, const Images& source, int64_t n, int64_t oy, int64_t ox, int64_t c,
                      const Visit& visit) const {
    const Windows& w = call.windows;
    for (int64_t ky = 0; ky < y.kernel; ++ky)
      for (int64_t kx = 0; kx < x.kernel; ++kx) {
        const int64_t iy = w.y.first + oy * y.stride + ky * y.dilation;
        const int64_t ix = w.x.first + ox * x.stride + kx * x.dilation;
        if (source.inside(iy, ix)) visit(source.index(n, iy, ix, c));
      }
  }
  template <class Visit>
  static void for_each_result(const Images& result, const Visit& visit) {
    for (int64_t n = 0; n < result.batch; ++n)
      for (int64_t oy = 0; oy < result.shape.height; ++oy)
        for (int64_t ox = 0; ox < result.shape.width; ++ox)
          for (int64_t c = 0; c < result.shape.channels; ++c) visit(n, oy, ox, c, result.index(n, oy, ox, c));
  }

  // A custom policy may select zeros outside the image, which count toward the average.
  double divisor(const Call& call, size_t inside) const {
    return call.windows.edge == MPSImageEdgeModeZero ? static_cast<double>(y.kernel * x.kernel)
                                                     : static_cast<double>(inside);
  }

  Images run(Call& call) override {
    const Images& source = *call.sources[0];
    Images result(call.batch, call.shape);
    for_each_result(result, [&](int64_t n, int64_t oy, int64_t ox, int64_t c, size_t at) {
      double most = -INFINITY, sum = 0, squares = 0;
      size_t inside = 0;
      for_each_pixel(call, source, n, oy, ox, c, [&](size_t i) {
        most = std::fmax(most, source.v[i]);
        sum += source.v[i];
        squares += source.v[i] * source.v[i];
        ++inside;
      });
      if (inside == 0)
        result.v[at] = 0;
      else if (kind == PoolingKind::maximum)
        result.v[at] = mock_is_broken("wrong_pooling_node") ? sum : most;
      else
        result.v[at] = kind == PoolingKind::average ? sum / divisor(call, inside) : std::sqrt(squares);
    });
    return result;
  }

  Images gradient(Call& call, const Images& of_result, size_t) override {
    const Images& source = *call.sources[0];
    Images result(call.batch, call.shapes[0]);
    for_each_result(of_result, [&](int64_t n, int64_t oy, int64_t ox, int64_t c, size_t at) {
      const double error = of_result.v[at];
      double most = -INFINITY, squares = 0;
      size_t inside = 0, where = 0;
      for_each_pixel(call, source, n, oy, ox, c, [&](size_t i) {
        if (source.v[i] >= most) most = source.v[i], where = i;
        squares += source.v[i] * source.v[i];
        ++inside;
      });
      if (inside == 0) return;
      if (kind == PoolingKind::maximum) {
        result.v[where] += error;
        return;
      }
      for_each_pixel(call, source, n, oy, ox, c, [&](size_t i) {
        result.v[i] +=
            kind == PoolingKind::average ? error / divisor(call, inside) : error * source.v[i] / std::sqrt(squares);
      });
    });
    return result;
  }
};

Axis axis(NSUInteger kernel, NSUInteger stride, NSUInteger dilation) {
  return {static_cast<int64_t>(kernel), static_cast<int64_t>(stride), static_cast<int64_t>(dilation), 0};
}

std::shared_ptr<Pooling> pooling(PoolingKind kind, Axis y, Axis x) {
  auto layer = std::make_shared<Pooling>();
  layer->kind = kind;
  layer->y = y;
  layer->x = x;
  return layer;
}

}  // namespace

@implementation MPSCNNPoolingNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size {
  return [[self alloc] initWithSource:source filterSize:size];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size stride:(NSUInteger)stride {
  return [[self alloc] initWithSource:source filterSize:size stride:stride];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size {
  return [self initWithSource:source filterSize:size stride:size];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size stride:(NSUInteger)stride {
  return [self initWithSource:source kernelWidth:size kernelHeight:size strideInPixelsX:stride strideInPixelsY:stride];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                   kernelWidth:(NSUInteger)width
                  kernelHeight:(NSUInteger)height
               strideInPixelsX:(NSUInteger)strideX
               strideInPixelsY:(NSUInteger)strideY {
  const PoolingKind kind = [self isKindOfClass:[MPSCNNPoolingMaxNode class]]       ? PoolingKind::maximum
                           : [self isKindOfClass:[MPSCNNPoolingAverageNode class]] ? PoolingKind::average
                                                                                   : PoolingKind::norm;
  return [super initWithLayer:pooling(kind, axis(height, strideY, 1), axis(width, strideX, 1))
                      sources:@[ source ]
                   stateClass:[MPSNNGradientStateNode class]];
}
- (NSUInteger)kernelWidth {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).x.kernel);
}
- (NSUInteger)kernelHeight {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).y.kernel);
}
- (NSUInteger)strideInPixelsX {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).x.stride);
}
- (NSUInteger)strideInPixelsY {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).y.stride);
}
@end

@implementation MPSCNNPoolingMaxNode
+ (Class)gradientNodeClass {
  return [MPSCNNPoolingMaxGradientNode class];
}
@end
@implementation MPSCNNPoolingAverageNode
+ (Class)gradientNodeClass {
  return [MPSCNNPoolingAverageGradientNode class];
}
@end
@implementation MPSCNNPoolingL2NormNode
+ (Class)gradientNodeClass {
  return [MPSCNNPoolingL2NormGradientNode class];
}
@end

@implementation MPSCNNDilatedPoolingMaxNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size {
  return [[self alloc] initWithSource:source filterSize:size];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
                    filterSize:(NSUInteger)size
                        stride:(NSUInteger)stride
                  dilationRate:(NSUInteger)dilation {
  return [[self alloc] initWithSource:source filterSize:size stride:stride dilationRate:dilation];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source filterSize:(NSUInteger)size {
  return [self initWithSource:source filterSize:size stride:size dilationRate:1];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                    filterSize:(NSUInteger)size
                        stride:(NSUInteger)stride
                  dilationRate:(NSUInteger)dilation {
  return [self initWithSource:source
                  kernelWidth:size
                 kernelHeight:size
              strideInPixelsX:stride
              strideInPixelsY:stride
                dilationRateX:dilation
                dilationRateY:dilation];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                   kernelWidth:(NSUInteger)width
                  kernelHeight:(NSUInteger)height
               strideInPixelsX:(NSUInteger)strideX
               strideInPixelsY:(NSUInteger)strideY
                 dilationRateX:(NSUInteger)dilationX
                 dilationRateY:(NSUInteger)dilationY {
  return [super
      initWithLayer:pooling(PoolingKind::maximum, axis(height, strideY, dilationY), axis(width, strideX, dilationX))
            sources:@[ source ]
         stateClass:[MPSNNGradientStateNode class]];
}
- (NSUInteger)dilationRateX {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).x.dilation);
}
- (NSUInteger)dilationRateY {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).y.dilation);
}
+ (Class)gradientNodeClass {
  return [MPSCNNDilatedPoolingMaxGradientNode class];
}
@end

@implementation MPSCNNPoolingGradientNode
- (NSUInteger)kernelWidth {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).x.kernel);
}
- (NSUInteger)kernelHeight {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).y.kernel);
}
- (NSUInteger)strideInPixelsX {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).x.stride);
}
- (NSUInteger)strideInPixelsY {
  return static_cast<NSUInteger>(layer_of<Pooling>(self).y.stride);
}
@end
@implementation MPSCNNPoolingMaxGradientNode
@end
@implementation MPSCNNPoolingAverageGradientNode
@end
@implementation MPSCNNPoolingL2NormGradientNode
@end
@implementation MPSCNNDilatedPoolingMaxGradientNode
@end
