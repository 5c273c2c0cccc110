// What a filter node computes: a layer, on batches of images in double precision.
//
// A node describes a filter. An MPSNNGraph copies the layer of each node that it needs when it is made, as Apple's
// makes kernels, and each encode of the graph makes one Call for each. Shapes are known while work is encoded; numbers
// are computed when the command buffer runs. Layers follow the formulas of Apple's documentation and share no code with
// the engine under test.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "mps/core/image.h"
#include "mps/core/kernel.h"
#include "mps/neural_network/neuron.h"
#include "mps/neural_network/states.h"

@class MockFilter;

namespace mock {

struct Shape {
  int64_t height = 1, width = 1, channels = 1;
  bool operator==(const Shape& o) const { return height == o.height && width == o.width && channels == o.channels; }
  int64_t count() const { return height * width * channels; }
};
NSString* text_of(const Shape& shape);

// A batch of images: batch, height, width and channels, the last fastest.
struct Images {
  int64_t batch = 0;
  Shape shape;
  std::vector<double> v;

  Images() = default;
  Images(int64_t images, Shape of, double value = 0)
      : batch(images), shape(of), v(static_cast<size_t>(images * of.count()), value) {}
  size_t index(int64_t n, int64_t y, int64_t x, int64_t c) const {
    return static_cast<size_t>(((n * shape.height + y) * shape.width + x) * shape.channels + c);
  }
  double& at(int64_t n, int64_t y, int64_t x, int64_t c) { return v[index(n, y, x, c)]; }
  double at(int64_t n, int64_t y, int64_t x, int64_t c) const { return v[index(n, y, x, c)]; }
  bool inside(int64_t y, int64_t x) const { return y >= 0 && y < shape.height && x >= 0 && x < shape.width; }
};

// To what the format of an image can hold.
double rounded(double value, MPSImageFeatureChannelFormat format);

// Where the windows of a filter lie along one axis: output i looks at first + i * stride + k * dilation.
struct Axis {
  int64_t kernel = 1, stride = 1, dilation = 1, first = 0;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};
struct Windows {
  Axis y, x;
  MPSImageEdgeMode edge = MPSImageEdgeModeZero;
};

// One filter in one encode of a graph.
struct Call {
  MockFilter* filter = nil;
  __unsafe_unretained id<MTLCommandBuffer> buffer = nil;  // only while work is encoded
  id<MTLDevice> device = nil;
  int64_t batch = 0;
  std::vector<Shape> shapes;  // of the sources
  std::vector<std::shared_ptr<const Images>> sources;  // when the work runs
  std::shared_ptr<const Images> result;
  Shape shape;  // of the result
  Windows windows;
  Call* forward = nullptr;  // of a gradient filter
  Call* partner = nullptr;  // of a transposed convolution: the convolution whose size it restores
  NSArray<MPSState*>* given = nil;  // labels, one state an image
  NSArray<MPSState*>* states = nil;  // what the filter made for its gradient, one an image or one for the batch
  std::shared_ptr<void> kept;  // what a layer keeps for its gradient
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::shared_ptr<Layer> copy() const = 0;

  virtual bool load(id<MTLDevice>) { return true; }  // when a graph is made or reloads; false: a data source refused
  virtual bool trains() const { return false; }  // whether its gradient changes parameters
  virtual bool reports() const { return false; }  // whether it runs although nobody needs its image
  // Sets what depends on sizes, and gives the size of the result.
  virtual Shape prepare(Call& call) = 0;
  // Makes call.states, what the filter remembers for its gradient and shows to data sources.
  virtual void remember(Call&, bool /*is_temporary*/) {}
  virtual Images run(Call& call) = 0;
  // Of the source with this number, given the gradient of the result. Raises where Apple has no gradient.
  virtual Images gradient(Call& call, const Images& of_result, size_t source);
  virtual bool by_cpu() const { return style == MPSNNTrainingStyleUpdateDeviceCPU; }  // who updates
  // After work of the gradient was encoded: the data source's update.
  virtual void update(Call&, id<MTLCommandBuffer>) {}

  MPSNNTrainingStyle style = MPSNNTrainingStyleUpdateDeviceGPU;
};

template <class L>
class LayerOf : public Layer {
 public:
  std::shared_ptr<Layer> copy() const override { return std::make_shared<L>(static_cast<const L&>(*this)); }
};

// A layer that works on each element alone has a result of its source's size.
template <class L>
class SameSize : public LayerOf<L> {
 public:
  Shape prepare(Call& call) override { return call.shapes[0]; }
};

// --- padding ---------------------------------------------------------------------------------------------------------

int64_t forward_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method);
int64_t reverse_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method);
// First pixel of the first window of a forward filter, `after`: whether the odd pixel of padding follows the image.
int64_t first_pixel(int64_t source, int64_t result, const Axis& axis, bool after);
// Sets call.windows' places and gives the result's size, by the filter's policy, a custom one included.
Shape apply_padding(Call& call, Shape source, int64_t channels);

// --- states ----------------------------------------------------------------------------------------------------------

std::vector<double> floats(const float* values, size_t count, double otherwise);
std::vector<double> load_floats(id<MTLBuffer> buffer, NSUInteger offset, size_t count);
void store_floats(id<MTLBuffer> buffer, NSUInteger offset, const std::vector<double>& values);
double rounded_to_half(double value);
// Raises unless the count of a temporary object fell by one in an update that must lower it.
void require_lowered(NSString* who, MPSState* state, NSUInteger before);

}  // namespace mock

@interface MPSCNNKernel (MockWindows)
- (instancetype)initForWindows:(const mock::Windows&)windows device:(id<MTLDevice>)device;
@end

// --- nodes -----------------------------------------------------------------------------------------------------------

// What an image node, a state node and a filter node share. A filter node may be dropped while its image is used, and
// its image while it is; neither keeps the other alive through this.
@interface MockFilter : NSObject {
 @package
  NSArray<MPSNNImageNode*>* sources;
  NSArray<MPSNNStateNode*>* labels;  // states that are inputs of the graph
  Class kind;  // of the filter node
  __weak MPSNNFilterNode* node;
  __weak MPSNNImageNode* image;
  MPSNNStateNode* state;  // with its settings, though nobody may hold it
  id<MPSNNPadding> padding;
  NSString* label;
  MockFilter* forward;  // of a gradient node
  NSUInteger forward_source;
  MockFilter* partner;
  std::shared_ptr<mock::Layer> layer;  // none in a gradient node, which asks its forward filter's
}
- (NSString*)name;  // for messages: the label or the class
@end

@interface MPSNNImageNode () {
 @package
  MockFilter* producer;  // nil: an input of the graph
}
@end

@interface MPSNNStateNode () {
 @package
  __weak MockFilter* producer;
}
@end

@interface MPSNNFilterNode () {
 @package
  MockFilter* filter;
  MPSNNImageNode* image;
  NSArray<MPSNNStateNode*>* made_states;
}
- (instancetype)initWithLayer:(std::shared_ptr<mock::Layer>)layer
                      sources:(NSArray<MPSNNImageNode*>*)sources
                   stateClass:(Class)stateClass;  // Nil: the filter makes no state
- (instancetype)initGradientOf:(MockFilter*)forward gradient:(MPSNNImageNode*)gradient source:(NSUInteger)source;
- (instancetype)initWithFilter:(MockFilter*)given image:(MPSNNImageNode*)result;  // in place of one that was dropped
+ (Class)gradientNodeClass;  // Nil: there is no gradient
@end

@interface MPSNNGradientFilterNode ()
// As the long initializers have it: the state tells which filter it belongs to.
- (instancetype)initWithGradient:(MPSNNImageNode*)gradient
                     sourceImage:(MPSNNImageNode*)source
                           state:(MPSNNStateNode*)state;
@end

namespace mock {

// The layer of a filter node, or of the filter that a gradient node belongs to.
template <class L>
L& layer_of(MPSNNFilterNode* node) {
  return static_cast<L&>(*(node->filter->forward ? node->filter->forward->layer : node->filter->layer));
}

}  // namespace mock
