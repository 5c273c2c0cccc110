// Reductions over a row, a column, the feature channels, or the pixels of an image. The mean over the pixels has a
// gradient.
//
// If an extreme value occurs several times, the result is its last index, because Apple does not specify which one to
// expect.
#include <cmath>
#include <map>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

enum class ReductionKind { minimum, maximum, mean, sum, argument_minimum, argument_maximum };
enum class Over { row, column, channels, pixels };

struct Reduction : LayerOf<Reduction> {
  ReductionKind kind = ReductionKind::sum;
  Over over = Over::row;
  float weight = 1;
  MTLRegion clip = {{0, 0, 0}, {NSUIntegerMax, NSUIntegerMax, NSUIntegerMax}};

  Shape prepare(Call& call) override {
    if (clip.origin.x != 0 || clip.origin.y != 0 || clip.origin.z != 0 ||
        clip.size.width < static_cast<NSUInteger>(call.shapes[0].width) ||
        clip.size.height < static_cast<NSUInteger>(call.shapes[0].height))
      misuse(@"%@: the mock does not support clipRectSource", call.filter.name);
    Shape result = call.shapes[0];
    if (over == Over::row || over == Over::pixels) result.width = 1;
    if (over == Over::column || over == Over::pixels) result.height = 1;
    if (over == Over::channels) result.channels = 1;
    return result;
  }

  // Call visit(index of the source, index of the result, position within the reduction) for each element of the source.
  template <class Visit>
  static void for_each(const Call& call, const Visit& visit) {
    const Images from(call.batch, call.shapes[0]), to(call.batch, call.shape);
    const Shape& r = call.shape;
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < from.shape.height; ++y)
        for (int64_t x = 0; x < from.shape.width; ++x)
          for (int64_t c = 0; c < from.shape.channels; ++c)
            visit(from.index(n, y, x, c),
                  to.index(n, r.height == 1 ? 0 : y, r.width == 1 ? 0 : x, r.channels == 1 ? 0 : c), c);
  }
  static double reduced_count(const Call& call) {
    return static_cast<double>(call.shapes[0].count()) / static_cast<double>(call.shape.count());
  }

  Images run(Call& call) override {
    const bool least = kind == ReductionKind::minimum || kind == ReductionKind::argument_minimum;
    const bool extreme = kind != ReductionKind::mean && kind != ReductionKind::sum;
    Images result(call.batch, call.shape, extreme ? (least ? INFINITY : -INFINITY) : 0);
    Images where(call.batch, call.shape);
    for_each(call, [&](size_t from, size_t to, int64_t c) {
      const double value = call.sources[0]->v[from];
      double& so_far = result.v[to];
      if (!extreme) {
        so_far += value * weight;
      } else if (least ? value <= so_far : value >= so_far) {
        so_far = value;
        where.v[to] = static_cast<double>(c);
      }
    });
    if (kind == ReductionKind::mean)
      for (double& value : result.v) value /= reduced_count(call);
    return kind == ReductionKind::argument_minimum || kind == ReductionKind::argument_maximum ? where : result;
  }
  Images gradient(Call& call, const Images& of_result, size_t source) override {
    if (kind != ReductionKind::mean || over != Over::pixels) return Layer::gradient(call, of_result, source);
    Images result(call.batch, call.shapes[0]);
    for_each(call, [&](size_t from, size_t to, int64_t) { result.v[from] = of_result.v[to] / reduced_count(call); });
    return result;
  }
};

std::shared_ptr<Reduction> reduction(Class node) {
  NSString* name = NSStringFromClass(node);
  const std::string text = name.UTF8String;
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  auto layer = std::make_shared<Reduction>();
  layer->over = has("Row") ? Over::row : has("Column") ? Over::column : has("Spatial") ? Over::pixels : Over::channels;
  layer->kind = has("ArgumentMin")   ? ReductionKind::argument_minimum
                : has("ArgumentMax") ? ReductionKind::argument_maximum
                : has("MinNode")     ? ReductionKind::minimum
                : has("MaxNode")     ? ReductionKind::maximum
                : has("MeanNode")    ? ReductionKind::mean
                                     : ReductionKind::sum;
  return layer;
}

}  // namespace

@implementation MPSNNUnaryReductionNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  if ([self isMemberOfClass:[MPSNNUnaryReductionNode class]])
    misuse(@"MPSNNUnaryReductionNode is abstract; use one of its subclasses");
  return [super initWithLayer:reduction([self class])
                      sources:@[ source ]
                   stateClass:[[self class] gradientNodeClass] ? [MPSNNGradientStateNode class] : Nil];
}
- (MTLRegion)clipRectSource {
  return layer_of<Reduction>(self).clip;
}
- (void)setClipRectSource:(MTLRegion)clip {
  layer_of<Reduction>(self).clip = clip;
}
@end

#define NODE(name)               \
  @implementation MPSNNReduction \
  ##name##Node @end
NODE(RowMin)
NODE(ColumnMin)
NODE(FeatureChannelsMin)
NODE(FeatureChannelsArgumentMin)
NODE(RowMax)
NODE(ColumnMax)
NODE(FeatureChannelsMax)
NODE(FeatureChannelsArgumentMax)
NODE(RowMean)
NODE(ColumnMean)
NODE(FeatureChannelsMean)
NODE(RowSum)
NODE(ColumnSum)

@implementation MPSNNReductionFeatureChannelsSumNode
- (float)weight {
  return layer_of<Reduction>(self).weight;
}
- (void)setWeight:(float)weight {
  layer_of<Reduction>(self).weight = weight;
}
@end
@implementation MPSNNReductionSpatialMeanNode
+ (Class)gradientNodeClass {
  return [MPSNNReductionSpatialMeanGradientNode class];
}
@end
@implementation MPSNNReductionSpatialMeanGradientNode
@end
