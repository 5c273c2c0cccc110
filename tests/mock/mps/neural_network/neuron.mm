// MPSNNNeuronDescriptor, and the functions of neurons.
#include "mps/neural_network/neuron.h"

#include <cmath>

#include "metal/mock_metal.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

@implementation MPSNNNeuronDescriptor
@synthesize neuronType = _neuronType, a = _a, b = _b, c = _c, data = _data;

+ (BOOL)supportsSecureCoding {
  return YES;
}
- (instancetype)init {
  if ((self = [super init])) _a = _b = _c = 1;
  return self;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)type {
  MPSNNNeuronDescriptor* descriptor = [[self alloc] init];
  descriptor.neuronType = type;
  return descriptor;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)type a:(float)a {
  MPSNNNeuronDescriptor* descriptor = [self cnnNeuronDescriptorWithType:type];
  descriptor.a = a;
  return descriptor;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)type a:(float)a b:(float)b {
  MPSNNNeuronDescriptor* descriptor = [self cnnNeuronDescriptorWithType:type a:a];
  descriptor.b = b;
  return descriptor;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)type a:(float)a b:(float)b c:(float)c {
  MPSNNNeuronDescriptor* descriptor = [self cnnNeuronDescriptorWithType:type a:a b:b];
  descriptor.c = c;
  return descriptor;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronPReLUDescriptorWithData:(NSData*)data noCopy:(bool)noCopy {
  MPSNNNeuronDescriptor* descriptor = [self cnnNeuronDescriptorWithType:MPSCNNNeuronTypePReLU];
  descriptor.data = noCopy ? data : [data copy];
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSNNNeuronDescriptor* copy = [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:_neuronType a:_a b:_b c:_c];
  copy.data = _data;
  return copy;
}
@end

namespace mock {

Neuron neuron_of(MPSNNNeuronDescriptor* descriptor) {
  if (!descriptor) return {};
  Neuron neuron{descriptor.neuronType, descriptor.a, descriptor.b, descriptor.c, {}};
  if (neuron.type == MPSCNNNeuronTypePReLU) {
    const float* slopes = static_cast<const float*>(descriptor.data.bytes);
    neuron.slopes.assign(slopes, slopes + descriptor.data.length / sizeof(float));
  }
  return neuron;
}

double Neuron::value(double x, size_t channel) const {
  switch (type) {
    case MPSCNNNeuronTypeNone: return x;
    case MPSCNNNeuronTypeReLU: return x >= 0 ? x : a * x;
    case MPSCNNNeuronTypeLinear: return a * x + b;
    case MPSCNNNeuronTypeSigmoid: return 1 / (1 + std::exp(-x));
    case MPSCNNNeuronTypeHardSigmoid: return std::fmin(std::fmax(a * x + b, 0), 1);
    case MPSCNNNeuronTypeTanH: return a * std::tanh(b * x);
    case MPSCNNNeuronTypeAbsolute: return std::fabs(x);
    case MPSCNNNeuronTypeSoftPlus: return a * (std::fmax(b * x, 0) + std::log1p(std::exp(-std::fabs(b * x))));
    case MPSCNNNeuronTypeSoftSign: return x / (1 + std::fabs(x));
    case MPSCNNNeuronTypeELU: return x >= 0 ? x : a * std::expm1(x);
    case MPSCNNNeuronTypePReLU: return x >= 0 ? x : slopes.at(channel) * x;
    case MPSCNNNeuronTypeReLUN: return std::fmin(x >= 0 ? x : a * x, b);
    case MPSCNNNeuronTypePower: return std::pow(a * x + b, c);
    case MPSCNNNeuronTypeExponential: return c == -1 ? std::exp(a * x + b) : std::pow(c, a * x + b);
    case MPSCNNNeuronTypeLogarithm: return std::log(a * x + b) / (c == -1 ? 1 : std::log(c));
    case MPSCNNNeuronTypeGeLU: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    default: misuse(@"neuron type %d", static_cast<int>(type));
  }
}

double Neuron::slope(double x, size_t channel) const {
  switch (type) {
    case MPSCNNNeuronTypeNone: return 1;
    case MPSCNNNeuronTypeReLU: return x >= 0 ? 1 : a;
    case MPSCNNNeuronTypeLinear: return a;
    case MPSCNNNeuronTypeSigmoid: return value(x) * (1 - value(x));
    case MPSCNNNeuronTypeHardSigmoid: return a * x + b > 0 && a * x + b < 1 ? a : 0;
    case MPSCNNNeuronTypeTanH: return a * b * (1 - std::tanh(b * x) * std::tanh(b * x));
    case MPSCNNNeuronTypeAbsolute: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case MPSCNNNeuronTypeSoftPlus: return a * b / (1 + std::exp(-b * x));
    case MPSCNNNeuronTypeSoftSign: return 1 / ((std::fabs(x) + 1) * (std::fabs(x) + 1));
    case MPSCNNNeuronTypeELU: return x >= 0 ? 1 : a * std::exp(x);
    case MPSCNNNeuronTypePReLU: return x >= 0 ? 1 : slopes.at(channel);
    case MPSCNNNeuronTypeReLUN: return x >= b ? 0 : x >= 0 ? 1 : a;
    case MPSCNNNeuronTypePower: return c * a * std::pow(a * x + b, c - 1);
    case MPSCNNNeuronTypeExponential: return a * (c == -1 ? 1 : std::log(c)) * value(x);
    case MPSCNNNeuronTypeLogarithm: return a / ((a * x + b) * (c == -1 ? 1 : std::log(c)));
    case MPSCNNNeuronTypeGeLU:
      return 0.5 * (1 + std::erf(x * std::sqrt(0.5))) +
             x * std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979323846);
    default: misuse(@"neuron type %d", static_cast<int>(type));
  }
}

}  // namespace mock
