// MPSRNNDescriptor, its subclasses, and the cells that they describe.
//
// The neuron and the biases of a gate come from the data source of its input weights; the other sources only provide
// weights. A matrix without a data source is zero. A gate without a source of input weights has no biases and the
// identity as its neuron.
#include <cstring>

#include "mps/core/kernel.h"
#include "mps/neural_network/rnn.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

@implementation MPSRNNDescriptor
@synthesize inputFeatureChannels = _inputFeatureChannels, outputFeatureChannels = _outputFeatureChannels;
@synthesize useLayerInputUnitTransformMode = _useLayerInputUnitTransformMode, useFloat32Weights = _useFloat32Weights;
@synthesize layerSequenceDirection = _layerSequenceDirection;
@end

namespace {

template <class Descriptor>
Descriptor* sized(Descriptor* descriptor, NSUInteger inputs, NSUInteger outputs) {
  if (inputs < 1 || outputs < 1)
    misuse(@"a recurrent layer requires at least 1 input and 1 output channel, got %lu and %lu", inputs, outputs);
  descriptor.inputFeatureChannels = inputs;
  descriptor.outputFeatureChannels = outputs;
  return descriptor;
}

}  // namespace

@implementation MPSRNNSingleGateDescriptor
@synthesize inputWeights = _inputWeights, recurrentWeights = _recurrentWeights;
+ (instancetype)createRNNSingleGateDescriptorWithInputFeatureChannels:(NSUInteger)inputs
                                                outputFeatureChannels:(NSUInteger)outputs {
  return sized([[self alloc] init], inputs, outputs);
}
@end

@implementation MPSGRUDescriptor
@synthesize inputGateInputWeights = _inputGateInputWeights, inputGateRecurrentWeights = _inputGateRecurrentWeights;
@synthesize recurrentGateInputWeights = _recurrentGateInputWeights;
@synthesize recurrentGateRecurrentWeights = _recurrentGateRecurrentWeights;
@synthesize outputGateInputWeights = _outputGateInputWeights, outputGateRecurrentWeights = _outputGateRecurrentWeights;
@synthesize outputGateInputGateWeights = _outputGateInputGateWeights;
@synthesize gatePnormValue = _gatePnormValue, flipOutputGates = _flipOutputGates;
- (instancetype)init {
  if ((self = [super init])) _gatePnormValue = 1;
  return self;
}
+ (instancetype)createGRUDescriptorWithInputFeatureChannels:(NSUInteger)inputs
                                      outputFeatureChannels:(NSUInteger)outputs {
  return sized([[self alloc] init], inputs, outputs);
}
@end

@implementation MPSLSTMDescriptor
@synthesize inputGateInputWeights = _inputGateInputWeights, inputGateRecurrentWeights = _inputGateRecurrentWeights;
@synthesize inputGateMemoryWeights = _inputGateMemoryWeights;
@synthesize forgetGateInputWeights = _forgetGateInputWeights, forgetGateRecurrentWeights = _forgetGateRecurrentWeights;
@synthesize forgetGateMemoryWeights = _forgetGateMemoryWeights;
@synthesize outputGateInputWeights = _outputGateInputWeights, outputGateRecurrentWeights = _outputGateRecurrentWeights;
@synthesize outputGateMemoryWeights = _outputGateMemoryWeights;
@synthesize cellGateInputWeights = _cellGateInputWeights, cellGateRecurrentWeights = _cellGateRecurrentWeights;
@synthesize cellGateMemoryWeights = _cellGateMemoryWeights, memoryWeightsAreDiagonal = _memoryWeightsAreDiagonal;
@synthesize cellToOutputNeuronType = _cellToOutputNeuronType;
@synthesize cellToOutputNeuronParamA = _cellToOutputNeuronParamA, cellToOutputNeuronParamB = _cellToOutputNeuronParamB;
@synthesize cellToOutputNeuronParamC = _cellToOutputNeuronParamC;
- (instancetype)init {
  if (!(self = [super init])) return nil;
  _cellToOutputNeuronType = MPSCNNNeuronTypeTanH;
  _cellToOutputNeuronParamA = _cellToOutputNeuronParamB = _cellToOutputNeuronParamC = 1;
  return self;
}
+ (instancetype)createLSTMDescriptorWithInputFeatureChannels:(NSUInteger)inputs
                                       outputFeatureChannels:(NSUInteger)outputs {
  return sized([[self alloc] init], inputs, outputs);
}
@end

namespace mock {
namespace {

using Source = id<MPSCNNConvolutionDataSource>;

struct Reader {
  Cell& cell;
  bool has_failed = false;

  void add(MPSRNNMatrixId id, MatrixSize shape, MPSDataType type, const void* numbers) {
    const Value given = Value::of(type, {shape.rows * shape.columns}, numbers);
    const Value rounded = given.cast(cell.weight_type);
    Vector& weights = cell.weights[id];
    for (int64_t i = 0; i < rounded.count(); ++i) weights.push_back(rounded.real(i));
    cell.shapes[id] = shape;
  }

  // Read the matrix of one data source. For input weights, also read the biases, and return the neuron.
  Neuron read(Source source, MPSRNNMatrixId id, MatrixSize shape, const MPSRNNMatrixId* bias) {
    if (!source || has_failed) return {};
    if (![source load]) {
      has_failed = true;
      return {};
    }
    MPSCNNConvolutionDescriptor* descriptor = [source descriptor];
    const auto inputs = static_cast<int64_t>(descriptor.inputFeatureChannels);
    const auto outputs = static_cast<int64_t>(descriptor.outputFeatureChannels);
    const bool is_diagonal = shape.rows == 1 && outputs == shape.columns && (inputs == 1 || inputs == outputs);
    if (descriptor.kernelWidth != 1 || descriptor.kernelHeight != 1 ||
        (!is_diagonal && (inputs != shape.columns || outputs != shape.rows)))
      misuse(@"weights of a recurrent layer must be 1 x 1 with %ld input and %ld output channels, got %lu x %lu with "
              "%ld and %ld",
             shape.columns, shape.rows, descriptor.kernelHeight, descriptor.kernelWidth, inputs, outputs);
    const MPSDataType type = [source dataType];
    if (type != MPSDataTypeFloat32 && type != MPSDataTypeFloat16)
      misuse(@"weights of a recurrent layer must be float32 or float16, got %s", type_name(type));
    if (!(bias && cell.input_is_identity)) add(id, shape, type, [source weights]);
    Neuron neuron;
    if (bias) {
      neuron = neuron_of(descriptor.fusedNeuronDescriptor);
      if (const float* terms = [source biasTerms]) add(*bias, {1, cell.outputs}, MPSDataTypeFloat32, terms);
    }
    [source purge];
    return neuron;
  }

  void gate(Gate ids, Source input, Source recurrent, Source memory) {
    cell.gates.push_back(ids);
    const MatrixSize square = {cell.outputs, cell.outputs};
    cell.neurons.push_back(read(input, ids.input, {cell.outputs, cell.inputs}, &ids.bias));
    read(recurrent, ids.recurrent, square, nullptr);
    // A diagonal matrix is assumed to have one row of weights; Apple does not document its layout.
    read(memory, ids.memory, cell.memory_is_diagonal ? MatrixSize{1, cell.outputs} : square, nullptr);
  }
};

void read_single(Reader& reader, MPSRNNSingleGateDescriptor* d) {
  reader.gate({MPSRNNMatrixIdSingleGateInputWeights, MPSRNNMatrixIdSingleGateRecurrentWeights, MPSRNNMatrixId_count,
               MPSRNNMatrixIdSingleGateBiasTerms},
              d.inputWeights, d.recurrentWeights, nil);
}

void read_lstm(Reader& reader, MPSLSTMDescriptor* d) {
  reader.cell.kind = Cell::Kind::lstm;
  reader.cell.memory_is_diagonal = d.memoryWeightsAreDiagonal;
  reader.cell.output_neuron = {
      d.cellToOutputNeuronType, d.cellToOutputNeuronParamA, d.cellToOutputNeuronParamB, d.cellToOutputNeuronParamC, {}};
  reader.gate({MPSRNNMatrixIdLSTMInputGateInputWeights, MPSRNNMatrixIdLSTMInputGateRecurrentWeights,
               MPSRNNMatrixIdLSTMInputGateMemoryWeights, MPSRNNMatrixIdLSTMInputGateBiasTerms},
              d.inputGateInputWeights, d.inputGateRecurrentWeights, d.inputGateMemoryWeights);
  reader.gate({MPSRNNMatrixIdLSTMForgetGateInputWeights, MPSRNNMatrixIdLSTMForgetGateRecurrentWeights,
               MPSRNNMatrixIdLSTMForgetGateMemoryWeights, MPSRNNMatrixIdLSTMForgetGateBiasTerms},
              d.forgetGateInputWeights, d.forgetGateRecurrentWeights, d.forgetGateMemoryWeights);
  reader.gate({MPSRNNMatrixIdLSTMMemoryGateInputWeights, MPSRNNMatrixIdLSTMMemoryGateRecurrentWeights,
               MPSRNNMatrixIdLSTMMemoryGateMemoryWeights, MPSRNNMatrixIdLSTMMemoryGateBiasTerms},
              d.cellGateInputWeights, d.cellGateRecurrentWeights, d.cellGateMemoryWeights);
  reader.gate({MPSRNNMatrixIdLSTMOutputGateInputWeights, MPSRNNMatrixIdLSTMOutputGateRecurrentWeights,
               MPSRNNMatrixIdLSTMOutputGateMemoryWeights, MPSRNNMatrixIdLSTMOutputGateBiasTerms},
              d.outputGateInputWeights, d.outputGateRecurrentWeights, d.outputGateMemoryWeights);
}

void read_gru(Reader& reader, MPSGRUDescriptor* d) {
  reader.cell.kind = Cell::Kind::gru;
  reader.cell.p_norm = d.gatePnormValue;
  reader.cell.outputs_are_flipped = d.flipOutputGates;
  reader.gate({MPSRNNMatrixIdGRUInputGateInputWeights, MPSRNNMatrixIdGRUInputGateRecurrentWeights, MPSRNNMatrixId_count,
               MPSRNNMatrixIdGRUInputGateBiasTerms},
              d.inputGateInputWeights, d.inputGateRecurrentWeights, nil);
  reader.gate({MPSRNNMatrixIdGRURecurrentGateInputWeights, MPSRNNMatrixIdGRURecurrentGateRecurrentWeights,
               MPSRNNMatrixId_count, MPSRNNMatrixIdGRURecurrentGateBiasTerms},
              d.recurrentGateInputWeights, d.recurrentGateRecurrentWeights, nil);
  reader.gate({MPSRNNMatrixIdGRUOutputGateInputWeights, MPSRNNMatrixIdGRUOutputGateRecurrentWeights,
               MPSRNNMatrixIdGRUOutputGateInputGateWeights, MPSRNNMatrixIdGRUOutputGateBiasTerms},
              d.outputGateInputWeights, d.outputGateRecurrentWeights, d.outputGateInputGateWeights);
}

}  // namespace

std::unique_ptr<Cell> cell_of(const MPSRNNDescriptor* given, bool always_half) {
  auto cell = std::make_unique<Cell>();
  MPSRNNDescriptor* descriptor = (MPSRNNDescriptor*)given;
  cell->inputs = static_cast<int64_t>(descriptor.inputFeatureChannels);
  cell->outputs = static_cast<int64_t>(descriptor.outputFeatureChannels);
  cell->input_is_identity = descriptor.useLayerInputUnitTransformMode;
  cell->is_backward = descriptor.layerSequenceDirection == MPSRNNSequenceDirectionBackward;
  if (descriptor.useFloat32Weights && !always_half) cell->weight_type = MPSDataTypeFloat32;
  if (cell->inputs < 1 || cell->outputs < 1)
    misuse(@"a recurrent layer requires at least 1 input and 1 output channel, got %ld and %ld", cell->inputs,
           cell->outputs);
  if (cell->input_is_identity && cell->inputs != cell->outputs)
    misuse(@"useLayerInputUnitTransformMode requires equal numbers of input and output channels, got %ld and %ld",
           cell->inputs, cell->outputs);
  Reader reader{*cell};
  if ([descriptor isKindOfClass:[MPSRNNSingleGateDescriptor class]])
    read_single(reader, (MPSRNNSingleGateDescriptor*)descriptor);
  else if ([descriptor isKindOfClass:[MPSLSTMDescriptor class]])
    read_lstm(reader, (MPSLSTMDescriptor*)descriptor);
  else if ([descriptor isKindOfClass:[MPSGRUDescriptor class]])
    read_gru(reader, (MPSGRUDescriptor*)descriptor);
  else
    misuse(@"%@ is not a supported descriptor of a recurrent layer", [descriptor class]);
  if (reader.has_failed) return nullptr;
  return cell;
}

}  // namespace mock
