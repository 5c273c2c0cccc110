// Neuron nodes and their gradients, which read the source of the forward filter.
//
// The default parameters of neurons are not documented, so the mock refuses initializers that omit them.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

struct NeuronLayer : SameSize<NeuronLayer> {
  Neuron neuron;
  MPSNNNeuronDescriptor* descriptor = nil;

  Images run(Call& call) override {
    if (neuron.type == MPSCNNNeuronTypePReLU && static_cast<int64_t>(neuron.slopes.size()) != call.shape.channels)
      misuse(@"%@: PReLU requires one slope for each of %ld channels, got %lu", call.filter.name, call.shape.channels,
             neuron.slopes.size());
    const auto channels = static_cast<size_t>(call.shape.channels);
    Images result = *call.sources[0];
    for (size_t i = 0; i < result.v.size(); ++i) result.v[i] = neuron.value(result.v[i], i % channels);
    return result;
  }
  Images gradient(Call& call, const Images& of_result, size_t) override {
    const auto channels = static_cast<size_t>(call.shape.channels);
    Images result = of_result;
    for (size_t i = 0; i < result.v.size(); ++i) result.v[i] *= neuron.slope(call.sources[0]->v[i], i % channels);
    return result;
  }
};

}  // namespace

@interface MPSCNNNeuronNode ()
- (instancetype)initWithSource:(MPSNNImageNode*)source neuron:(MPSNNNeuronDescriptor*)descriptor;
@end

@implementation MPSCNNNeuronNode
- (instancetype)initWithSource:(MPSNNImageNode*)source neuron:(MPSNNNeuronDescriptor*)descriptor {
  auto layer = std::make_shared<NeuronLayer>();
  layer->descriptor = [descriptor copy];
  layer->neuron = neuron_of(descriptor);
  return [super initWithLayer:layer sources:@[ source ] stateClass:[MPSNNGradientStateNode class]];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source descriptor:(MPSNNNeuronDescriptor*)descriptor {
  return [[self alloc] initWithSource:source neuron:descriptor];
}
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source {
  return [[self alloc] initWithSource:source];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source {
  misuse(@"initWithSource: of %@: default parameters are not documented; specify them explicitly", [self class]);
}
+ (Class)gradientNodeClass {
  return [MPSCNNNeuronGradientNode class];
}
- (float)a {
  return layer_of<NeuronLayer>(self).descriptor.a;
}
- (float)b {
  return layer_of<NeuronLayer>(self).descriptor.b;
}
- (float)c {
  return layer_of<NeuronLayer>(self).descriptor.c;
}
@end

#define PLAIN(name, kind)                                                                                \
  @implementation MPSCNNNeuron                                                                           \
  ##name##Node - (instancetype)initWithSource : (MPSNNImageNode*)source {                                \
    return [self initWithSource:source neuron:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kind]]; \
  }                                                                                                      \
  @end
#define WITH_A(name, kind)                                                                                   \
  @implementation MPSCNNNeuron                                                                               \
  ##name##Node + (instancetype)nodeWithSource : (MPSNNImageNode*)source a : (float)a {                       \
    return [[self alloc] initWithSource:source a:a];                                                         \
  }                                                                                                          \
  -(instancetype)initWithSource : (MPSNNImageNode*)source a : (float)a {                                     \
    return [self initWithSource:source neuron:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kind a:a]]; \
  }                                                                                                          \
  @end
#define WITH_A_B(name, kind)                                                                                     \
  @implementation MPSCNNNeuron                                                                                   \
  ##name##Node + (instancetype)nodeWithSource : (MPSNNImageNode*)source a : (float)a b : (float)b {              \
    return [[self alloc] initWithSource:source a:a b:b];                                                         \
  }                                                                                                              \
  -(instancetype)initWithSource : (MPSNNImageNode*)source a : (float)a b : (float)b {                            \
    return [self initWithSource:source neuron:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kind a:a b:b]]; \
  }                                                                                                              \
  @end
#define WITH_A_B_C(name, kind)                                                                                       \
  @implementation MPSCNNNeuron                                                                                       \
  ##name##Node + (instancetype)nodeWithSource : (MPSNNImageNode*)source a : (float)a b : (float)b c : (float)c {     \
    return [[self alloc] initWithSource:source a:a b:b c:c];                                                         \
  }                                                                                                                  \
  -(instancetype)initWithSource : (MPSNNImageNode*)source a : (float)a b : (float)b c : (float)c {                   \
    return [self initWithSource:source neuron:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kind a:a b:b c:c]]; \
  }                                                                                                                  \
  @end

PLAIN(Absolute, MPSCNNNeuronTypeAbsolute)
PLAIN(Sigmoid, MPSCNNNeuronTypeSigmoid)
PLAIN(SoftSign, MPSCNNNeuronTypeSoftSign)
PLAIN(GeLU, MPSCNNNeuronTypeGeLU)
WITH_A(ELU, MPSCNNNeuronTypeELU)
WITH_A(ReLU, MPSCNNNeuronTypeReLU)
WITH_A_B(ReLUN, MPSCNNNeuronTypeReLUN)
WITH_A_B(Linear, MPSCNNNeuronTypeLinear)
WITH_A_B(HardSigmoid, MPSCNNNeuronTypeHardSigmoid)
WITH_A_B(SoftPlus, MPSCNNNeuronTypeSoftPlus)
WITH_A_B(TanH, MPSCNNNeuronTypeTanH)
WITH_A_B_C(Power, MPSCNNNeuronTypePower)
WITH_A_B_C(Exponential, MPSCNNNeuronTypeExponential)
WITH_A_B_C(Logarithm, MPSCNNNeuronTypeLogarithm)

@implementation MPSCNNNeuronPReLUNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source aData:(NSData*)data {
  return [[self alloc] initWithSource:source aData:data];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source aData:(NSData*)data {
  return [self initWithSource:source neuron:[MPSNNNeuronDescriptor cnnNeuronPReLUDescriptorWithData:data noCopy:false]];
}
@end

@implementation MPSCNNNeuronGradientNode
+ (instancetype)nodeWithSourceGradient:(MPSNNImageNode*)gradient
                           sourceImage:(MPSNNImageNode*)source
                         gradientState:(MPSNNGradientStateNode*)state
                            descriptor:(MPSNNNeuronDescriptor*)descriptor {
  return [[self alloc] initWithGradient:gradient sourceImage:source state:state];
}
- (MPSNNNeuronDescriptor*)descriptor {
  return layer_of<NeuronLayer>(self).descriptor;
}
@end
