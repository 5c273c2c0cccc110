// Builds recurrent descriptors and the data sources of gates. A gate is a convolution over one pixel with the gate's
// neuron.
#include "backends/metal/nngraph/neurons.h"
#include "backends/metal/nngraph/recurrent.h"
#include "backends/metal/types.h"

#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using namespace mpsgraph;
using namespace mpsgraph::metal;

@interface MpsgraphGateSource : NSObject <MPSCNNConvolutionDataSource> {
 @package
  NSUInteger inputs, outputs;
  runtime::NDArray weights;
  std::vector<float> biases;
  MPSNNNeuronDescriptor* neuron;
}
@end

@implementation MpsgraphGateSource
- (MPSDataType)dataType {
  return data_type(weights.dtype());
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  MPSCNNConvolutionDescriptor* descriptor =
      [MPSCNNConvolutionDescriptor cnnConvolutionDescriptorWithKernelWidth:1
                                                              kernelHeight:1
                                                      inputFeatureChannels:inputs
                                                     outputFeatureChannels:outputs];
  if (neuron) descriptor.fusedNeuronDescriptor = neuron;
  return descriptor;
}
- (void*)weights {
  return weights.data();
}
- (float*)biasTerms {
  return biases.empty() ? nullptr : biases.data();
}
- (BOOL)load {
  return YES;
}
- (void)purge {
  // Empty because the descriptor owns a copy of the data.
}
- (NSString*)label {
  return nil;
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
@end

namespace mpsgraph::metal {
namespace {

using nngraph::Gate;
using nngraph::RecurrentCell;
using nngraph::RecurrentDescriptor;
using nngraph::WeightKind;
using runtime::NDArray;

NDArray dense(const NDArray& array) { return array.contiguous() ? array : array.copy_contiguous(); }

MPSNNNeuronDescriptor* neuron_of(const nngraph::Neuron& n) { return neuron_descriptor(n.type, n.a, n.b, n.c, nullptr); }

// Create the data source of a gate; nil if the weights are omitted. The source of the input weights also provides the
// gate's neuron and bias.
id<MPSCNNConvolutionDataSource> source_of(const RecurrentDescriptor& d, size_t number, WeightKind kind) {
  const Gate& gate = d.gates[number];
  NDArray weights = gate[kind];
  const bool is_input = kind == WeightKind::input;
  const NDArray& bias = gate[WeightKind::bias];
  if (!weights.valid()) {
    if (!is_input || (!bias.valid() && gate.neuron.type == "none")) return nil;
    weights = NDArray::allocate(DType::float32, {d.outputs, d.inputs});
    std::fill_n(weights.data(), weights.bytes(), std::byte{0});
  }
  MpsgraphGateSource* source = [[MpsgraphGateSource alloc] init];
  const bool diagonal = weights.dims().size() == 1;
  source->inputs = static_cast<NSUInteger>(diagonal ? 1 : weights.dims()[1]);
  source->outputs = static_cast<NSUInteger>(d.outputs);
  source->weights = dense(weights);
  if (!is_input) return source;
  source->neuron = neuron_of(gate.neuron);
  if (!bias.valid()) return source;
  const NDArray terms = dense(bias);
  for (int64_t i = 0; i < terms.elements(); ++i)
    source->biases.push_back(terms.dtype() == DType::float32
                                 ? reinterpret_cast<const float*>(terms.data())[i]
                                 : half_to_float(reinterpret_cast<const uint16_t*>(terms.data())[i]));
  return source;
}

MPSRNNDescriptor* single_gate(const RecurrentDescriptor& d, NSUInteger inputs, NSUInteger outputs) {
  MPSRNNSingleGateDescriptor* made =
      [MPSRNNSingleGateDescriptor createRNNSingleGateDescriptorWithInputFeatureChannels:inputs
                                                                  outputFeatureChannels:outputs];
  made.inputWeights = source_of(d, 0, WeightKind::input);
  made.recurrentWeights = source_of(d, 0, WeightKind::recurrent);
  return made;
}

MPSRNNDescriptor* lstm(const RecurrentDescriptor& d, NSUInteger inputs, NSUInteger outputs) {
  MPSLSTMDescriptor* made = [MPSLSTMDescriptor createLSTMDescriptorWithInputFeatureChannels:inputs
                                                                      outputFeatureChannels:outputs];
  made.memoryWeightsAreDiagonal = d.diagonal_memory;
  made.inputGateInputWeights = source_of(d, 0, WeightKind::input);
  made.inputGateRecurrentWeights = source_of(d, 0, WeightKind::recurrent);
  made.inputGateMemoryWeights = source_of(d, 0, WeightKind::memory);
  made.forgetGateInputWeights = source_of(d, 1, WeightKind::input);
  made.forgetGateRecurrentWeights = source_of(d, 1, WeightKind::recurrent);
  made.forgetGateMemoryWeights = source_of(d, 1, WeightKind::memory);
  made.cellGateInputWeights = source_of(d, 2, WeightKind::input);
  made.cellGateRecurrentWeights = source_of(d, 2, WeightKind::recurrent);
  made.cellGateMemoryWeights = source_of(d, 2, WeightKind::memory);
  made.outputGateInputWeights = source_of(d, 3, WeightKind::input);
  made.outputGateRecurrentWeights = source_of(d, 3, WeightKind::recurrent);
  made.outputGateMemoryWeights = source_of(d, 3, WeightKind::memory);
  MPSNNNeuronDescriptor* neuron = neuron_of(d.cell_to_output);
  made.cellToOutputNeuronType = neuron.neuronType;
  made.cellToOutputNeuronParamA = neuron.a;
  made.cellToOutputNeuronParamB = neuron.b;
  made.cellToOutputNeuronParamC = neuron.c;
  return made;
}

MPSRNNDescriptor* gru(const RecurrentDescriptor& d, NSUInteger inputs, NSUInteger outputs) {
  MPSGRUDescriptor* made = [MPSGRUDescriptor createGRUDescriptorWithInputFeatureChannels:inputs
                                                                   outputFeatureChannels:outputs];
  made.inputGateInputWeights = source_of(d, 0, WeightKind::input);
  made.inputGateRecurrentWeights = source_of(d, 0, WeightKind::recurrent);
  made.recurrentGateInputWeights = source_of(d, 1, WeightKind::input);
  made.recurrentGateRecurrentWeights = source_of(d, 1, WeightKind::recurrent);
  made.outputGateInputWeights = source_of(d, 2, WeightKind::input);
  made.outputGateRecurrentWeights = source_of(d, 2, WeightKind::recurrent);
  made.outputGateInputGateWeights = source_of(d, 2, WeightKind::memory);
  made.gatePnormValue = static_cast<float>(d.p_norm);
  made.flipOutputGates = d.flip_output_gates;
  return made;
}

}  // namespace

MPSRNNDescriptor* rnn_descriptor(const RecurrentDescriptor& d, bool directed) {
  const auto inputs = static_cast<NSUInteger>(d.inputs), outputs = static_cast<NSUInteger>(d.outputs);
  MPSRNNDescriptor* made = d.cell == RecurrentCell::lstm  ? lstm(d, inputs, outputs)
                           : d.cell == RecurrentCell::gru ? gru(d, inputs, outputs)
                                                          : single_gate(d, inputs, outputs);
  made.useLayerInputUnitTransformMode = d.identity_input;
  made.useFloat32Weights = d.float32_weights;
  if (directed && d.backward) made.layerSequenceDirection = MPSRNNSequenceDirectionBackward;
  return made;
}

}  // namespace mpsgraph::metal
