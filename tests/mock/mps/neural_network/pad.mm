// Pad and reshape nodes, and their gradients.
//
// Reshape keeps the order height, width, channels, because no other order is documented.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

// Return the source index that an edge mode shows at index `at`, or -1 for the fill value.
int64_t seen(int64_t at, int64_t size, MPSImageEdgeMode mode) {
  if (at >= 0 && at < size) return at;
  switch (mode) {
    case MPSImageEdgeModeClamp: return at < 0 ? 0 : size - 1;
    case MPSImageEdgeModeMirror: return at < 0 ? -at : 2 * size - 2 - at;
    case MPSImageEdgeModeMirrorWithEdge: return at < 0 ? -at - 1 : 2 * size - 1 - at;
    default: return -1;
  }
}

struct Pad : LayerOf<Pad> {
  MPSImageCoordinate before = {}, after = {};
  MPSImageEdgeMode mode = MPSImageEdgeModeZero;
  float fill = 0;

  Shape prepare(Call& call) override {
    const auto sum = [](int64_t size, NSUInteger a, NSUInteger b) { return size + static_cast<int64_t>(a + b); };
    const Shape& from = call.shapes[0];
    const Shape result = {sum(from.height, before.y, after.y), sum(from.width, before.x, after.x),
                          sum(from.channels, before.channel, after.channel)};
    const bool mirrors = mode == MPSImageEdgeModeMirror || mode == MPSImageEdgeModeMirrorWithEdge;
    const int64_t less = mode == MPSImageEdgeModeMirror ? 1 : 0;
    const auto most = [](NSUInteger a, NSUInteger b) { return static_cast<int64_t>(a > b ? a : b); };
    if (mirrors && (most(before.y, after.y) > from.height - less || most(before.x, after.x) > from.width - less ||
                    most(before.channel, after.channel) > from.channels - less))
      misuse(@"%@: the padding is too large to mirror a source of %@", call.filter.name, text_of(from));
    if (before.channel % 4 != 0)
      misuse(@"%@: padding before the first channel must be a multiple of 4, got %lu", call.filter.name,
             before.channel);
    return result;
  }

  // Call visit(index of the result, index of the source or -1) for each element of the result.
  template <class Visit>
  void for_each(const Call& call, const Visit& visit) const {
    const Images from(call.batch, call.shapes[0]), to(call.batch, call.shape);
    const auto shift = [](int64_t at, NSUInteger by) { return at - static_cast<int64_t>(by); };
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < to.shape.height; ++y)
        for (int64_t x = 0; x < to.shape.width; ++x)
          for (int64_t c = 0; c < to.shape.channels; ++c) {
            const int64_t sy = seen(shift(y, before.y), from.shape.height, mode);
            const int64_t sx = seen(shift(x, before.x), from.shape.width, mode);
            const int64_t sc = seen(shift(c, before.channel), from.shape.channels, mode);
            visit(to.index(n, y, x, c),
                  sy < 0 || sx < 0 || sc < 0 ? int64_t{-1} : static_cast<int64_t>(from.index(n, sy, sx, sc)));
          }
  }
  Images run(Call& call) override {
    Images result(call.batch, call.shape);
    for_each(call, [&](size_t to, int64_t from) {
      result.v[to] = from >= 0                          ? call.sources[0]->v[static_cast<size_t>(from)]
                     : mode == MPSImageEdgeModeConstant ? fill
                                                        : 0;
    });
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    Images result(call.batch, call.shapes[0]);
    for_each(call, [&](size_t to, int64_t from) {
      if (from >= 0) result.v[static_cast<size_t>(from)] += of_result.v[to];
    });
    return result;
  }
};

struct Reshape : LayerOf<Reshape> {
  Shape wanted;

  Shape prepare(Call& call) override {
    if (wanted.count() != call.shapes[0].count())
      misuse(@"%@: %@ cannot become %@", call.filter.name, text_of(call.shapes[0]), text_of(wanted));
    return wanted;
  }
  static Images as(const Images& images, const Shape& shape) {
    Images result = images;
    result.shape = shape;
    return result;
  }
  Images run(Call& call) override { return as(*call.sources[0], call.shape); }
  Images gradient(Call& call, const Images& of_result, size_t) override { return as(of_result, call.shapes[0]); }
};

}  // namespace

@implementation MPSNNPadNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
             paddingSizeBefore:(MPSImageCoordinate)before
              paddingSizeAfter:(MPSImageCoordinate)after
                      edgeMode:(MPSImageEdgeMode)mode {
  return [[self alloc] initWithSource:source paddingSizeBefore:before paddingSizeAfter:after edgeMode:mode];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
             paddingSizeBefore:(MPSImageCoordinate)before
              paddingSizeAfter:(MPSImageCoordinate)after
                      edgeMode:(MPSImageEdgeMode)mode {
  auto layer = std::make_shared<Pad>();
  layer->before = before;
  layer->after = after;
  layer->mode = mode;
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
- (float)fillValue {
  return layer_of<Pad>(self).fill;
}
- (void)setFillValue:(float)value {
  layer_of<Pad>(self).fill = value;
}
+ (Class)gradientNodeClass {
  return [MPSNNPadGradientNode class];
}
@end
@implementation MPSNNPadGradientNode
@end

@implementation MPSNNReshapeNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
                   resultWidth:(NSUInteger)width
                  resultHeight:(NSUInteger)height
         resultFeatureChannels:(NSUInteger)channels {
  return [[self alloc] initWithSource:source resultWidth:width resultHeight:height resultFeatureChannels:channels];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                   resultWidth:(NSUInteger)width
                  resultHeight:(NSUInteger)height
         resultFeatureChannels:(NSUInteger)channels {
  auto layer = std::make_shared<Reshape>();
  layer->wanted = {static_cast<int64_t>(height), static_cast<int64_t>(width), static_cast<int64_t>(channels)};
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSNNReshapeGradientNode class];
}
@end
@implementation MPSNNReshapeGradientNode
@end
