// Arithmetic and comparison nodes of two images, and their gradients.
//
// A stride of 0 repeats a source along that dimension, and its gradient is summed over the repetitions. Measured on a
// Mac, a primaryScale that is set on a node does not reach the kernel of a graph. The effect of secondaryScale, bias,
// minimumValue, and maximumValue has not been measured, so the mock refuses nodes that set them.
#include <cfloat>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

enum class Operation { add, subtract, multiply, divide, compare };

struct Strides {
  NSUInteger y = 1, x = 1, channels = 1;
};

struct Arithmetic : LayerOf<Arithmetic> {
  Operation operation = Operation::add;
  MPSNNComparisonType comparison = MPSNNComparisonTypeEqual;
  float primary_scale = 1, secondary_scale = 1, bias = 0, minimum = -FLT_MAX, maximum = FLT_MAX;
  std::array<Strides, 2> strides;

  Shape prepare(Call& call) override {
    if (secondary_scale != 1 || bias != 0 || minimum != -FLT_MAX || maximum != FLT_MAX)
      misuse(@"%@: it is not known whether secondaryScale, bias, minimumValue, and maximumValue of a node take effect",
             call.filter.name);
    const auto size = [&](NSString* what, int64_t Shape::* part, NSUInteger Strides::* stride) {
      const NSUInteger first = strides[0].*stride, second = strides[1].*stride;
      if (first > 1 || second > 1) misuse(@"%@: strides must be 0 or 1", call.filter.name);
      const int64_t a = call.shapes[0].*part, b = call.shapes[1].*part;
      if (first && second && a != b)
        misuse(@"%@: the sources must agree in %@, got shapes %@ and %@", call.filter.name, what,
               text_of(call.shapes[0]), text_of(call.shapes[1]));
      return first ? a : second ? b : 1;
    };
    return {size(@"height", &Shape::height, &Strides::y), size(@"width", &Shape::width, &Strides::x),
            size(@"feature channels", &Shape::channels, &Strides::channels)};
  }

  // Call visit(index in the result, index in the first source, index in the second source) for each element.
  template <class Visit>
  void for_each(const Call& call, const Visit& visit) const {
    const Images at(call.batch, call.shape);
    const Images *a = call.sources[0].get(), *b = call.sources[1].get();
    const auto place = [](const Images& images, const Strides& s, int64_t n, int64_t y, int64_t x, int64_t c) {
      return images.index(n, s.y ? y : 0, s.x ? x : 0, s.channels ? c : 0);
    };
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < call.shape.height; ++y)
        for (int64_t x = 0; x < call.shape.width; ++x)
          for (int64_t c = 0; c < call.shape.channels; ++c)
            visit(at.index(n, y, x, c), place(*a, strides[0], n, y, x, c), place(*b, strides[1], n, y, x, c));
  }

  double value(double a, double b) const {
    switch (operation) {
      case Operation::add: return a + b;
      case Operation::subtract: return a - b;
      case Operation::multiply: return a * b;
      case Operation::divide: return a / b;
      case Operation::compare: break;
    }
    switch (comparison) {
      case MPSNNComparisonTypeEqual: return a == b;
      case MPSNNComparisonTypeNotEqual: return a != b;
      case MPSNNComparisonTypeLess: return a < b;
      case MPSNNComparisonTypeLessOrEqual: return a <= b;
      case MPSNNComparisonTypeGreater: return a > b;
      default: return a >= b;
    }
  }

  Images run(Call& call) override {
    Images result(call.batch, call.shape);
    for_each(call, [&](size_t at, size_t a, size_t b) {
      result.v[at] = value(call.sources[0]->v[a], call.sources[1]->v[b]);
    });
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t source) override {
    Images result(call.batch, call.shapes[source]);
    for_each(call, [&](size_t at, size_t a, size_t b) {
      double factor = source == 1 && operation == Operation::subtract ? -1 : 1;
      if (operation == Operation::multiply) factor = source == 0 ? call.sources[1]->v[b] : call.sources[0]->v[a];
      result.v[source == 0 ? a : b] += factor * of_result.v[at];
    });
    return result;
  }
};

Operation operation_of(Class kind) {
  if ([kind isSubclassOfClass:[MPSNNAdditionNode class]]) return Operation::add;
  if ([kind isSubclassOfClass:[MPSNNSubtractionNode class]]) return Operation::subtract;
  if ([kind isSubclassOfClass:[MPSNNMultiplicationNode class]]) return Operation::multiply;
  if ([kind isSubclassOfClass:[MPSNNDivisionNode class]]) return Operation::divide;
  return Operation::compare;
}

}  // namespace

@implementation MPSNNBinaryArithmeticNode
+ (instancetype)nodeWithSources:(NSArray<MPSNNImageNode*>*)sources {
  return [[self alloc] initWithSources:sources];
}
+ (instancetype)nodeWithLeftSource:(MPSNNImageNode*)left rightSource:(MPSNNImageNode*)right {
  return [[self alloc] initWithLeftSource:left rightSource:right];
}
- (instancetype)initWithLeftSource:(MPSNNImageNode*)left rightSource:(MPSNNImageNode*)right {
  return [self initWithSources:@[ left, right ]];
}
- (instancetype)initWithSources:(NSArray<MPSNNImageNode*>*)sources {
  if (sources.count != 2) misuse(@"%@ requires two sources, got %lu", [self class], sources.count);
  auto layer = std::make_shared<Arithmetic>();
  layer->operation = operation_of([self class]);
  return [super initWithLayer:layer sources:sources stateClass:[MPSNNBinaryGradientStateNode class]];
}
- (Class)gradientClass {
  return [[self class] gradientNodeClass];
}
#define SETTING(type, getter, setter, member)  \
  -(type)getter {                              \
    return layer_of<Arithmetic>(self).member;  \
  }                                            \
  -(void)setter : (type)value {                \
    layer_of<Arithmetic>(self).member = value; \
  }
SETTING(float, primaryScale, setPrimaryScale, primary_scale)
SETTING(float, secondaryScale, setSecondaryScale, secondary_scale)
SETTING(float, bias, setBias, bias)
SETTING(float, minimumValue, setMinimumValue, minimum)
SETTING(float, maximumValue, setMaximumValue, maximum)
SETTING(NSUInteger, primaryStrideInPixelsX, setPrimaryStrideInPixelsX, strides[0].x)
SETTING(NSUInteger, primaryStrideInPixelsY, setPrimaryStrideInPixelsY, strides[0].y)
SETTING(NSUInteger, primaryStrideInFeatureChannels, setPrimaryStrideInFeatureChannels, strides[0].channels)
SETTING(NSUInteger, secondaryStrideInPixelsX, setSecondaryStrideInPixelsX, strides[1].x)
SETTING(NSUInteger, secondaryStrideInPixelsY, setSecondaryStrideInPixelsY, strides[1].y)
SETTING(NSUInteger, secondaryStrideInFeatureChannels, setSecondaryStrideInFeatureChannels, strides[1].channels)
@end

@implementation MPSNNAdditionNode
+ (Class)gradientNodeClass {
  return [MPSNNAdditionGradientNode class];
}
@end
@implementation MPSNNSubtractionNode
+ (Class)gradientNodeClass {
  return [MPSNNSubtractionGradientNode class];
}
@end
@implementation MPSNNMultiplicationNode
+ (Class)gradientNodeClass {
  return [MPSNNMultiplicationGradientNode class];
}
@end
@implementation MPSNNDivisionNode
@end
@implementation MPSNNComparisonNode
SETTING(MPSNNComparisonType, comparisonType, setComparisonType, comparison)
@end

@implementation MPSNNArithmeticGradientNode
- (instancetype)initWithGradientImages:(NSArray<MPSNNImageNode*>*)gradients
                         forwardFilter:(MPSNNFilterNode*)forward
               isSecondarySourceFilter:(BOOL)isSecondary {
  if (gradients.count != 1) misuse(@"%@ requires one gradient, got %lu", [self class], gradients.count);
  return [self initGradientOf:forward->filter gradient:gradients[0] source:isSecondary ? 1 : 0];
}
- (BOOL)isSecondarySourceFilter {
  return filter->forward_source == 1;
}
@end
@implementation MPSNNAdditionGradientNode
@end
@implementation MPSNNSubtractionGradientNode
@end
@implementation MPSNNMultiplicationGradientNode
@end

#undef SETTING
