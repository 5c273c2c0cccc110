// Layers: the computations of filter nodes, on batches of images in double precision.
//
// A node describes a filter. On creation, an MPSNNGraph copies the layer of each node it needs, as Apple's graph
// creates kernels, and each encode of the graph creates one Call per layer. Shapes are known while work is encoded;
// values are computed when the command buffer runs. Layers follow the formulas of Apple's documentation and share no
// code with the engine under test.
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

// A batch of images in the order batch, height, width, channels, with channels contiguous.
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

// Round a value to the format of an image.
double rounded(double value, MPSImageFeatureChannelFormat format);

// Positions of a filter's windows along one axis. Output i reads the pixels first + i * stride + k * dilation.
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
  __unsafe_unretained id<MTLCommandBuffer> buffer = nil;  // only valid while work is encoded
  id<MTLDevice> device = nil;
  int64_t batch = 0;
  std::vector<Shape> shapes;  // shapes of the sources
  std::vector<std::shared_ptr<const Images>> sources;  // set when the work runs
  std::shared_ptr<const Images> result;
  Shape shape;  // shape of the result
  Windows windows;
  Call* forward = nullptr;  // forward call of a gradient filter
  Call* partner = nullptr;  // for a transposed convolution, the convolution whose size it restores
  NSArray<MPSState*>* given = nil;  // labels, one state per image
  NSArray<MPSState*>* states = nil;  // states the filter made for its gradient, one per image or one per batch
  std::shared_ptr<void> kept;  // data that a layer keeps for its gradient
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::shared_ptr<Layer> copy() const = 0;

  // called on creation and reload; false if a data source failed to load
  virtual bool load(id<MTLDevice>) { return true; }
  virtual bool trains() const { return false; }  // whether its gradient updates parameters
  virtual bool reports() const { return false; }  // whether it runs even if its image is not needed
  // Set the members of a call that depend on sizes, and return the shape of the result.
  virtual Shape prepare(Call& call) = 0;
  // Create call.states, which the filter keeps for its gradient and passes to data sources.
  virtual void remember(Call&, bool /*is_temporary*/) {}
  virtual Images run(Call& call) = 0;
  // Return the gradient with respect to one source, given the gradient of the result. Raise if Apple provides none.
  virtual Images gradient(Call& call, const Images& of_result, size_t source);
  // whether the CPU updates the parameters
  virtual bool by_cpu() const { return style == MPSNNTrainingStyleUpdateDeviceCPU; }
  // Call the update method of the data source, after the work of the gradient was encoded.
  virtual void update(Call&, id<MTLCommandBuffer>) {}

  MPSNNTrainingStyle style = MPSNNTrainingStyleUpdateDeviceGPU;
};

template <class L>
class LayerOf : public Layer {
 public:
  std::shared_ptr<Layer> copy() const override { return std::make_shared<L>(static_cast<const L&>(*this)); }
};

// Element-wise layer, whose result has the shape of its source.
template <class L>
class SameSize : public LayerOf<L> {
 public:
  Shape prepare(Call& call) override { return call.shapes[0]; }
};

// --- padding ---------------------------------------------------------------------------------------------------------

int64_t forward_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method);
int64_t reverse_size(int64_t source, const Axis& axis, MPSNNPaddingMethod method);
// Return the first pixel of the first window of a forward filter. `after` selects whether an odd pixel of padding
// follows the image.
int64_t first_pixel(int64_t source, int64_t result, const Axis& axis, bool after);
// Set the window positions of a call and return the shape of its result, according to the filter's padding policy,
// which may be a custom one.
Shape apply_padding(Call& call, Shape source, int64_t channels);

// --- states ----------------------------------------------------------------------------------------------------------

std::vector<double> floats(const float* values, size_t count, double otherwise);
std::vector<double> load_floats(id<MTLBuffer> buffer, NSUInteger offset, size_t count);
void store_floats(id<MTLBuffer> buffer, NSUInteger offset, const std::vector<double>& values);
double rounded_to_half(double value);
// Raise unless an update has decremented the read count of a temporary object, as it must.
void require_lowered(NSString* who, MPSState* state, NSUInteger before);

}  // namespace mock

@interface MPSCNNKernel (MockWindows)
- (instancetype)initForWindows:(const mock::Windows&)windows device:(id<MTLDevice>)device;
@end

// --- nodes -----------------------------------------------------------------------------------------------------------

// Data that image, state, and filter nodes share. A filter node may be released while its image is in use, and vice
// versa; this object keeps neither of them alive.
@interface MockFilter : NSObject {
 @package
  NSArray<MPSNNImageNode*>* sources;
  NSArray<MPSNNStateNode*>* labels;  // states that are inputs of the graph
  Class kind;  // class of the filter node
  __weak MPSNNFilterNode* node;
  __weak MPSNNImageNode* image;
  MPSNNStateNode* state;  // kept for its settings, even if the application released it
  id<MPSNNPadding> padding;
  NSString* label;
  MockFilter* forward;  // forward filter of a gradient node
  NSUInteger forward_source;
  MockFilter* partner;
  std::shared_ptr<mock::Layer> layer;  // null for a gradient node, which uses the forward filter's layer
}
- (NSString*)name;  // label or class name, for messages
@end

@interface MPSNNImageNode () {
 @package
  MockFilter* producer;  // nil for an input of the graph
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
                   stateClass:(Class)stateClass;  // Nil if the filter makes no state
- (instancetype)initGradientOf:(MockFilter*)forward gradient:(MPSNNImageNode*)gradient source:(NSUInteger)source;
- (instancetype)initWithFilter:(MockFilter*)given image:(MPSNNImageNode*)result;  // recreates a released node
+ (Class)gradientNodeClass;  // Nil if there is no gradient
@end

@interface MPSNNGradientFilterNode ()
// Implements the long initializers, whose state identifies the forward filter.
- (instancetype)initWithGradient:(MPSNNImageNode*)gradient
                     sourceImage:(MPSNNImageNode*)source
                           state:(MPSNNStateNode*)state;
@end

namespace mock {

// Return the layer of a filter node, or of the forward filter of a gradient node.
template <class L>
L& layer_of(MPSNNFilterNode* node) {
  return static_cast<L&>(*(node->filter->forward ? node->filter->forward->layer : node->filter->layer));
}

}  // namespace mock
