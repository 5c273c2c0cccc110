// Concatenation along feature channels.
//
// Each source occupies a multiple of four channels of the result. The filler values, measured on a Mac, are those that
// a texture with fewer components reads: 0 0 1 after one channel, 0 1 after two, and 0 after three.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

int64_t padded(int64_t channels) { return (channels + 3) / 4 * 4; }

struct Concatenation : LayerOf<Concatenation> {
  Shape prepare(Call& call) override {
    Shape result = call.shapes[0];
    result.channels = 0;
    for (const Shape& shape : call.shapes) {
      if (shape.height != result.height || shape.width != result.width)
        misuse(@"%@: the sources must have the same height and width, got shapes %@ and %@", call.filter.name,
               text_of(call.shapes[0]), text_of(shape));
      result.channels += padded(shape.channels);
    }
    return result;
  }

  // Call visit(index in the result, index in the source) for each of the source's own channels.
  template <class Visit>
  static void for_each(const Call& call, size_t source, const Visit& visit) {
    int64_t first = 0;
    for (size_t i = 0; i < source; ++i) first += padded(call.shapes[i].channels);
    const int64_t channels = call.shapes[source].channels;
    const int64_t pixels = call.batch * call.shape.height * call.shape.width;
    for (int64_t i = 0; i < pixels; ++i)
      for (int64_t c = 0; c < channels; ++c)
        visit(static_cast<size_t>(i * call.shape.channels + first + c), static_cast<size_t>(i * channels + c));
  }

  Images run(Call& call) override {
    Images result(call.batch, call.shape);
    for (size_t source = 0; source < call.shapes.size(); ++source) {
      const auto channels = static_cast<size_t>(call.shapes[source].channels);
      const bool ends_with_one = channels % 4 == 1 || channels % 4 == 2;
      for_each(call, source, [&](size_t at, size_t from) {
        result.v[at] = call.sources[source]->v[from];
        if (ends_with_one && from % channels == channels - 1) result.v[at + 4 - channels % 4] = 1;
      });
    }
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t source) override {
    Images result(call.batch, call.shapes[source]);
    for_each(call, source, [&](size_t at, size_t to) { result.v[to] = of_result.v[at]; });
    return result;
  }
};

}  // namespace

@implementation MPSNNConcatenationNode
+ (instancetype)nodeWithSources:(NSArray<MPSNNImageNode*>*)sources {
  return [[self alloc] initWithSources:sources];
}
- (instancetype)initWithSources:(NSArray<MPSNNImageNode*>*)sources {
  return [super initWithLayer:std::make_shared<Concatenation>()
                      sources:sources
                   stateClass:[MPSNNGradientStateNode class]];
}
- (MPSNNGradientFilterNode*)gradientFilterWithSource:(MPSNNImageNode*)gradient {
  misuse(@"gradientFilterWithSource: %@ has no single gradient; call gradientFiltersWithSource: instead", filter.name);
}
+ (Class)gradientNodeClass {
  return [MPSNNConcatenationGradientNode class];
}
@end

@implementation MPSNNConcatenationGradientNode
+ (instancetype)nodeWithSourceGradient:(MPSNNImageNode*)gradient
                           sourceImage:(MPSNNImageNode*)source
                         gradientState:(MPSNNGradientStateNode*)state {
  return [[self alloc] initWithSourceGradient:gradient sourceImage:source gradientState:state];
}
- (instancetype)initWithSourceGradient:(MPSNNImageNode*)gradient
                           sourceImage:(MPSNNImageNode*)source
                         gradientState:(MPSNNGradientStateNode*)state {
  return [self initWithGradient:gradient sourceImage:source state:state];
}
@end
