// Convolution, transposed convolution, and fully connected nodes with their gradients: loops over windows, and calls of
// the data source's methods.
//
// Weights have the layout [O][kH][kW][I/groups], or [O][kH][kW] for depthwise convolution. A transposed convolution is
// a convolution with stride 1 and unflipped weights over its source, with stride - 1 zeros inserted between the pixels.
// Both kinds are the same sum over pairs of a result pixel and a source pixel.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

// Weights that the kernels of one graph copied from a data source. Commands read them on the queue's thread, and CPU
// updates write them.
struct KernelWeights {
  std::mutex mutex;
  std::vector<double> weights, biases;
};

struct Convolution : LayerOf<Convolution> {
  id<MPSCNNConvolutionDataSource> source = nil;
  bool is_transposed = false, is_fully_connected = false;
  MPSNNConvolutionAccumulatorPrecisionOption accumulator = MPSNNConvolutionAccumulatorPrecisionOptionFloat;
  // Values of the descriptor at the time it was loaded.
  MPSCNNConvolutionDescriptor* descriptor = nil;
  Axis y, x;
  int64_t inputs = 0, outputs = 0, groups = 1;
  Neuron neuron;
  bool keeps_float32 = false;
  std::shared_ptr<KernelWeights> held;

  int64_t group_inputs() const { return inputs / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  NSString* name() const { return NSStringFromClass([(NSObject*)source class]); }

  // --- the data source ---

  void read_descriptor() {
    descriptor = [source descriptor];
    if (!descriptor) misuse(@"%@: descriptor must not be nil", name());
    const auto number = [](NSUInteger n) { return static_cast<int64_t>(n); };
    y = {number(descriptor.kernelHeight), number(descriptor.strideInPixelsY), number(descriptor.dilationRateY), 0};
    x = {number(descriptor.kernelWidth), number(descriptor.strideInPixelsX), number(descriptor.dilationRateX), 0};
    inputs = number(descriptor.inputFeatureChannels);
    outputs = number(descriptor.outputFeatureChannels);
    groups = number(descriptor.groups);
    if (y.kernel < 1 || x.kernel < 1 || y.stride < 1 || x.stride < 1 || y.dilation < 1 || x.dilation < 1 ||
        inputs < 1 || outputs < 1 || groups < 1)
      misuse(@"%@: sizes, strides, dilations, and channel counts of the descriptor must be at least 1", name());
    if (is_depthwise(descriptor)) {
      if (groups != 1) misuse(@"%@: depthwise convolution requires groups = 1, got %ld", name(), groups);
      if (outputs != inputs)
        misuse(@"%@: training of depthwise convolution requires equal input and output channels, got %ld and %ld",
               name(), inputs, outputs);
      groups = inputs;
    } else if (inputs % groups != 0 || outputs % groups != 0 || (groups > 1 && (inputs / groups) % 4 != 0)) {
      misuse(@"%@: %ld groups must divide %ld input and %ld output channels into groups with a multiple of 4 inputs",
             name(), groups, inputs, outputs);
    }
    if (is_fully_connected && (groups != 1 || y.stride != 1 || x.stride != 1 || y.dilation != 1 || x.dilation != 1))
      misuse(@"%@: a fully connected layer requires groups, strides, and dilations of 1", name());
    neuron = neuron_of(descriptor.fusedNeuronDescriptor);
  }

  std::vector<double> read_weights() {
    const void* given = [source weights];
    if (!given) misuse(@"%@: weights must not be NULL after load", name());
    const size_t count = weight_count(descriptor);
    std::vector<double> result(count);
    const size_t each = count / static_cast<size_t>(outputs);
    const MPSDataType type = [source dataType];
    if (is_transposed && type != MPSDataTypeFloat32)
      misuse(@"%@: a transposed convolution requires float32 weights, got %s", name(), type_name(type));
    if (keeps_float32 && type != MPSDataTypeFloat32)
      misuse(@"%@: a kernelWeightsDataType of float32 requires float32 weights, got %s", name(), type_name(type));
    if (type == MPSDataTypeFloat32 || type == MPSDataTypeFloat16) {
      const Value numbers = Value::of(type, {static_cast<int64_t>(count)}, given);
      for (size_t i = 0; i < count; ++i) result[i] = numbers.real(static_cast<int64_t>(i));
      return result;
    }
    if (type != MPSDataTypeUInt8)
      misuse(@"%@: weights must be float32, float16, or uint8, got %s", name(), type_name(type));
    const auto* bytes = static_cast<const uint8_t*>(given);
    const MPSCNNWeightsQuantizationType kind = [source respondsToSelector:@selector(weightsQuantizationType)]
                                                   ? [source weightsQuantizationType]
                                                   : MPSCNNWeightsQuantizationTypeNone;
    if (kind == MPSCNNWeightsQuantizationTypeNone)
      misuse(@"%@: weights of uint8 require a weightsQuantizationType other than none", name());
    if (kind == MPSCNNWeightsQuantizationTypeLookupTable) {
      const float* table = [source lookupTableForUInt8Kernel];
      for (size_t i = 0; i < count; ++i) result[i] = table[bytes[i]];
      return result;
    }
    const vector_float2* ranges = [source rangesForUInt8Kernel];
    for (size_t i = 0; i < count; ++i) {
      const vector_float2 range = ranges[i / each];
      result[i] = bytes[i] / 255.0 * (range.y - range.x) + range.x;
    }
    return result;
  }

  // Kernels store float16 weights unless the data source requests float32.
  void hold(std::vector<double> weights, std::vector<double> biases) {
    if (!keeps_float32)
      for (double& w : weights) w = rounded_to_half(w);
    const std::lock_guard lock(held->mutex);
    held->weights = std::move(weights);
    held->biases = std::move(biases);
  }

  bool load(id<MTLDevice>) override {
    if (!held) held = std::make_shared<KernelWeights>();
    // The first load only reads the descriptor. How often Apple loads a data source is not specified, only that each
    // load is followed by purge.
    if (![source load]) return false;
    read_descriptor();
    [source purge];
    if (![source load]) return false;
    read_descriptor();
    if ([source respondsToSelector:@selector(weightsLayout)] &&
        [source weightsLayout] != MPSCNNConvolutionWeightsLayoutOHWI)
      misuse(@"%@: weightsLayout must be OHWI", name());
    keeps_float32 = [source respondsToSelector:@selector(kernelWeightsDataType)] &&
                    [source kernelWeightsDataType] == MPSDataTypeFloat32;
    if (keeps_float32 && accumulator != MPSNNConvolutionAccumulatorPrecisionOptionFloat)
      misuse(@"%@: float32 kernel weights require float accumulation", name());
    hold(read_weights(), floats([source biasTerms], static_cast<size_t>(outputs), 0));
    [source purge];
    return true;
  }

  // --- sizes ---

  Shape prepare(Call& call) override {
    const Shape from = call.shapes[0];
    if (from.channels != inputs)
      misuse(@"%@ expects %ld feature channels, but its source has %ld", call.filter.name, inputs, from.channels);
    call.windows = {y, x, MPSImageEdgeModeZero};
    if (is_fully_connected) {
      if (from.height != y.kernel || from.width != x.kernel)
        misuse(@"%@ expects an image of the kernel size %ld x %ld, but its source is %@", call.filter.name, y.kernel,
               x.kernel, text_of(from));
      return {1, 1, outputs};
    }
    if (!is_transposed) return apply_padding(call, from, outputs);
    return prepare_transposed(call, from);
  }

  Shape prepare_transposed(Call& call, const Shape& from) {
    const MPSNNPaddingMethod method = [call.filter->padding paddingMethod];
    if (method & MPSNNPaddingMethodCustom)
      misuse(@"%@: the mock does not support custom padding of transposed convolutions", call.filter.name);
    Shape to = {reverse_size(from.height, y, method), reverse_size(from.width, x, method), outputs};
    Windows& w = call.windows;
    if (call.partner) {  // keep the window positions of the convolution, relative to its result
      const Windows& of = call.partner->windows;
      to = {call.partner->shapes[0].height, call.partner->shapes[0].width, outputs};
      w.y.first = -of.y.first - (w.y.reach() - 1);
      w.x.first = -of.x.first - (w.x.reach() - 1);
      return to;
    }
    const bool below = method & MPSNNPaddingMethodAddRemainderToBottomLeft;
    const bool right = method & MPSNNPaddingMethodAddRemainderToTopRight;
    w.y.first = first_pixel((from.height - 1) * y.stride + 1, to.height, {y.kernel, 1, y.dilation, 0}, below);
    w.x.first = first_pixel((from.width - 1) * x.stride + 1, to.width, {x.kernel, 1, x.dilation, 0}, right);
    if (to.count() <= 0) misuse(@"%@: the result for a source of %@ is empty", call.filter.name, text_of(from));
    return to;
  }

  // --- numbers ---

  // Return the source index that filter tap k multiplies for result index p, or -1 if there is none.
  int64_t place(const Axis& axis, int64_t p, int64_t k, int64_t size) const {
    if (!is_transposed) {
      const int64_t at = axis.first + p * axis.stride + k * axis.dilation;
      return at >= 0 && at < size ? at : -1;
    }
    const int64_t at = axis.first + p + k * axis.dilation;
    return at >= 0 && at % axis.stride == 0 && at / axis.stride < size ? at / axis.stride : -1;
  }

  // Call visit(index of the result pixel, index of the source pixel, index of the filter tap) for each pair that a tap
  // connects.
  template <class Visit>
  void for_each_pair(const Call& call, const Visit& visit) const {
    const Shape &from = call.shapes[0], &to = call.shape;
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t oy = 0; oy < to.height; ++oy)
        for (int64_t ox = 0; ox < to.width; ++ox)
          for (int64_t ky = 0; ky < y.kernel; ++ky) {
            const int64_t iy = place(call.windows.y, oy, ky, from.height);
            if (iy < 0) continue;
            for (int64_t kx = 0; kx < x.kernel; ++kx) {
              const int64_t ix = place(call.windows.x, ox, kx, from.width);
              if (ix < 0) continue;
              visit(static_cast<size_t>(((n * to.height + oy) * to.width + ox) * outputs),
                    static_cast<size_t>(((n * from.height + iy) * from.width + ix) * inputs), ky * x.kernel + kx);
            }
          }
  }

  Images run(Call& call) override {
    const std::lock_guard lock(held->mutex);
    const int64_t places = y.kernel * x.kernel, in = group_inputs(), out = group_outputs();
    // Reorder the weights to [tap][group][input][output of the group], so that the innermost loop reads contiguous
    // memory.
    std::vector<double> turned(held->weights.size());
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < places; ++k)
        for (int64_t i = 0; i < in; ++i)
          turned[static_cast<size_t>(((k * groups + o / out) * in + i) * out + o % out)] =
              held->weights[static_cast<size_t>((o * places + k) * in + i)];
    Images result(call.batch, call.shape);
    for (size_t i = 0; i < result.v.size(); ++i) result.v[i] = held->biases[i % static_cast<size_t>(outputs)];
    const double* from = call.sources[0]->v.data();
    for_each_pair(call, [&](size_t to_at, size_t from_at, int64_t k) {
      for (int64_t g = 0; g < groups; ++g) {
        double* to = &result.v[to_at + static_cast<size_t>(g * out)];
        const double* w = &turned[static_cast<size_t>((k * groups + g) * in * out)];
        for (int64_t i = 0; i < in; ++i, w += out) {
          const double value = from[from_at + static_cast<size_t>(g * in + i)];
          for (int64_t o = 0; o < out; ++o) to[o] += value * w[o];
        }
      }
    });
    if (neuron.type != MPSCNNNeuronTypeNone)
      for (size_t i = 0; i < result.v.size(); ++i)
        result.v[i] = neuron.value(result.v[i], i % static_cast<size_t>(outputs));
    return result;
  }

  // --- gradients ---

  void remember(Call& call, bool is_temporary) override {
    MPSImage* const none = nil;
    MPSCNNConvolutionGradientState* state =
        is_temporary
            ? [[MPSCNNConvolutionGradientState alloc] initForDescriptor:descriptor
                                                                 source:none
                                                          commandBuffer:call.buffer]
            : [[MPSCNNConvolutionGradientState alloc] initForDescriptor:descriptor source:none device:call.device];
    state->width = static_cast<NSUInteger>(call.shapes[0].width);
    state->height = static_cast<NSUInteger>(call.shapes[0].height);
    call.states = @[ state ];
    call.kept = std::make_shared<Gradients>(Gradients{state.gradientForWeights, state.gradientForBiases});
  }

  bool trains() const override {
    if (style == MPSNNTrainingStyleUpdateDeviceNone) return false;
    return [source respondsToSelector:style == MPSNNTrainingStyleUpdateDeviceGPU
                                          ? @selector(updateWithCommandBuffer:gradientState:sourceState:)
                                          : @selector(updateWithGradientState:sourceState:)];
  }

  Images gradient(Call& call, const Images& of_result, size_t) override {
    const int64_t places = y.kernel * x.kernel, in = group_inputs(), out = group_outputs();
    std::vector<double> of_weights(weight_count(descriptor)), of_biases(static_cast<size_t>(outputs));
    Images of_source(call.batch, call.shapes[0]);
    const std::lock_guard lock(held->mutex);
    const double *from = call.sources[0]->v.data(), *error = of_result.v.data();
    for (size_t i = 0; i < of_result.v.size(); ++i) of_biases[i % of_biases.size()] += error[i];
    for_each_pair(call, [&](size_t to_at, size_t from_at, int64_t k) {
      for (int64_t o = 0; o < outputs; ++o) {
        const double e = error[to_at + static_cast<size_t>(o)];
        const size_t source_at = from_at + static_cast<size_t>(o / out * in);
        const size_t weight_at = static_cast<size_t>((o * places + k) * in);
        const double* value = &from[source_at];
        double *to = &of_source.v[source_at], *of_weight = &of_weights[weight_at];
        const double* w = &held->weights[weight_at];
        for (int64_t i = 0; i < in; ++i) {
          of_weight[i] += e * value[i];
          to[i] += e * w[i];
        }
      }
    });
    auto* state = static_cast<Gradients*>(call.kept.get());
    store_floats(state->weights, 0, of_weights);
    store_floats(state->biases, 0, of_biases);
    return of_source;
  }

  // Buffers of the gradient state. Work captures these instead of the state, whose lifetime the application controls.
  struct Gradients {
    id<MTLBuffer> weights, biases;
  };

  void update(Call& call, id<MTLCommandBuffer> buffer) override {
    auto* state = (MPSCNNConvolutionGradientState*)call.states[0];
    if (!trains()) {
      if (state.isTemporary) state.readCount = state.readCount - 1;
      return;
    }
    if (neuron.type != MPSCNNNeuronTypeNone)
      misuse(@"%@ cannot train with a neuron in its descriptor; use a separate neuron node", call.filter.name);
    const bool by_gpu = style == MPSNNTrainingStyleUpdateDeviceGPU;
    MPSCNNConvolutionWeightsAndBiasesState* used =
        by_gpu ? [MPSCNNConvolutionWeightsAndBiasesState
                     temporaryCNNConvolutionWeightsAndBiasesStateWithCommandBuffer:buffer
                                                          cnnConvolutionDescriptor:descriptor]
               : [[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithDevice:call.device
                                                       cnnConvolutionDescriptor:descriptor];
    auto weights = held;
    id<MTLBuffer> weight_buffer = used.weights, bias_buffer = used.biases;
    encode(buffer, call.filter.name, @[], @[ used ], [weights, weight_buffer, bias_buffer] {
      const std::lock_guard lock(weights->mutex);
      store_floats(weight_buffer, 0, weights->weights);
      if (bias_buffer) store_floats(bias_buffer, 0, weights->biases);
    });
    by_gpu ? update_by_gpu(call, buffer, state, used) : update_by_cpu(call, buffer, state, used);
  }

  void update_by_gpu(Call& call, id<MTLCommandBuffer> buffer, MPSCNNConvolutionGradientState* state,
                     MPSCNNConvolutionWeightsAndBiasesState* used) {
    const NSUInteger of_state = state.readCount, of_used = used.readCount;
    MPSCNNConvolutionWeightsAndBiasesState* changed = [source updateWithCommandBuffer:buffer
                                                                        gradientState:state
                                                                          sourceState:used];
    NSString* who = [name() stringByAppendingString:@" updateWithCommandBuffer:gradientState:sourceState:"];
    require_lowered(who, state, of_state);
    require_lowered(who, used, of_used);
    if (!changed) return;
    // Apple's talks and the applications disagree about whether sourceState may still be read after its read count was
    // decremented, so the mock refuses it as a result.
    if (changed == used) misuse(@"%@ returned its sourceState; it must return another state", who);
    const size_t weight_number = weight_count(descriptor), bias_number = static_cast<size_t>(outputs);
    id<MTLBuffer> weight_buffer = changed.weights, bias_buffer = changed.biases;
    const NSUInteger weights_from = changed.weightsOffset, biases_from = changed.biasesOffset;
    if (weight_buffer.length < weights_from + weight_number * sizeof(float))
      misuse(@"%@ must return a buffer of %lu weights, got %lu bytes", who, weight_number,
             weight_buffer.length - weights_from);
    auto self = std::make_shared<Convolution>(*this);
    encode(buffer, call.filter.name, @[ changed ], @[], [=] {
      self->hold(load_floats(weight_buffer, weights_from, weight_number),
                 bias_buffer ? load_floats(bias_buffer, biases_from, bias_number) : std::vector<double>(bias_number));
    });
  }

  void update_by_cpu(Call& call, id<MTLCommandBuffer> buffer, MPSCNNConvolutionGradientState* state,
                     MPSCNNConvolutionWeightsAndBiasesState* used) {
    [state synchronizeOnCommandBuffer:buffer];
    [used synchronizeOnCommandBuffer:buffer];
    auto self = std::make_shared<Convolution>(*this);
    id<MTLDevice> device = call.device;
    [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
      if (done.error) return;
      if ([self->source updateWithGradientState:state sourceState:used]) self->load(device);
    }];
  }
};

}  // namespace

@implementation MPSCNNConvolutionNode

+ (instancetype)nodeWithSource:(MPSNNImageNode*)source weights:(id<MPSCNNConvolutionDataSource>)weights {
  return [[self alloc] initWithSource:source weights:weights];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
                       weights:(id<MPSCNNConvolutionDataSource>)weights
                         layer:(std::shared_ptr<Convolution>)layer
                         state:(Class)state {
  if (!weights) misuse(@"%@: the weights must not be nil", [self class]);
  layer->source = weights;
  if ((self = [super initWithLayer:layer sources:@[ source ] stateClass:state])) filter->label = [weights label];
  return self;
}
- (instancetype)initWithSource:(MPSNNImageNode*)source weights:(id<MPSCNNConvolutionDataSource>)weights {
  return [self initWithSource:source
                      weights:weights
                        layer:std::make_shared<Convolution>()
                        state:[MPSCNNConvolutionGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSCNNConvolutionGradientNode class];
}
- (MPSCNNConvolutionGradientStateNode*)convolutionGradientState {
  return (MPSCNNConvolutionGradientStateNode*)self.resultState;
}
- (MPSNNTrainingStyle)trainingStyle {
  return filter->layer->style;
}
- (void)setTrainingStyle:(MPSNNTrainingStyle)style {
  filter->layer->style = style;
}
- (MPSNNConvolutionAccumulatorPrecisionOption)accumulatorPrecision {
  return layer_of<Convolution>(self).accumulator;
}
- (void)setAccumulatorPrecision:(MPSNNConvolutionAccumulatorPrecisionOption)precision {
  layer_of<Convolution>(self).accumulator = precision;
}
@end

@implementation MPSCNNFullyConnectedNode
- (instancetype)initWithSource:(MPSNNImageNode*)source weights:(id<MPSCNNConvolutionDataSource>)weights {
  auto layer = std::make_shared<Convolution>();
  layer->is_fully_connected = true;
  return [self initWithSource:source weights:weights layer:layer state:[MPSCNNConvolutionGradientStateNode class]];
}
+ (Class)gradientNodeClass {
  return [MPSCNNFullyConnectedGradientNode class];
}
@end

@implementation MPSCNNConvolutionTransposeNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source
      convolutionGradientState:(MPSCNNConvolutionGradientStateNode*)state
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  return [[self alloc] initWithSource:source convolutionGradientState:state weights:weights];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source
      convolutionGradientState:(MPSCNNConvolutionGradientStateNode*)state
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  auto layer = std::make_shared<Convolution>();
  layer->is_transposed = true;
  self = [self initWithSource:source
                      weights:weights
                        layer:layer
                        state:[MPSCNNConvolutionTransposeGradientStateNode class]];
  if (self && state) filter->partner = state->producer;
  return self;
}
- (instancetype)initWithSource:(MPSNNImageNode*)source weights:(id<MPSCNNConvolutionDataSource>)weights {
  misuse(@"a transposed convolution must be created with convolutionGradientState:, not with initWithSource:weights:");
}
- (MPSCNNConvolutionGradientStateNode*)convolutionGradientState {
  misuse(@"convolutionGradientState is not available for a transposed convolution");
}
+ (Class)gradientNodeClass {
  return [MPSCNNConvolutionTransposeGradientNode class];
}
@end

@implementation MPSCNNConvolutionGradientNode
+ (instancetype)nodeWithSourceGradient:(MPSNNImageNode*)gradient
                           sourceImage:(MPSNNImageNode*)source
              convolutionGradientState:(MPSCNNConvolutionGradientStateNode*)state
                               weights:(id<MPSCNNConvolutionDataSource>)weights {
  return [[self alloc] initWithSourceGradient:gradient
                                  sourceImage:source
                     convolutionGradientState:state
                                      weights:weights];
}
- (instancetype)initWithSourceGradient:(MPSNNImageNode*)gradient
                           sourceImage:(MPSNNImageNode*)source
              convolutionGradientState:(MPSCNNConvolutionGradientStateNode*)state
                               weights:(id<MPSCNNConvolutionDataSource>)weights {
  self = [self initWithGradient:gradient sourceImage:source state:state];
  if (self && weights && weights != layer_of<Convolution>(self).source)
    misuse(@"%@: the weights must be the data source of the forward filter", [self class]);
  return self;
}
- (MPSNNTrainingStyle)trainingStyle {
  return filter->forward->layer->style;
}
- (void)setTrainingStyle:(MPSNNTrainingStyle)style {
  filter->forward->layer->style = style;
}
@end
@implementation MPSCNNFullyConnectedGradientNode
@end
@implementation MPSCNNConvolutionTransposeGradientNode
@end
