// MPSRNNMatrixTrainingLayer: forward and gradient sequences over weights that the application trains.
//
// The mock stores the weights in two matrices of seven columns, alternating between them and starting with the last
// weight, so that programs can only rely on what Apple documents. Where the documentation is silent, the layer raises:
// for a backward direction, a non-empty array that a method is to fill, an offset into a copied matrix, and recurrent
// states of a gradient.
#include <cstring>

#include "mps/neural_network/rnn_sequence.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

// --- where each matrix lies ------------------------------------------------------------------------------------------

namespace {

constexpr int64_t columns = 7;

struct Place {
  size_t matrix;
  int64_t first;  // element index in the matrix, ignoring padding
};

struct Packing {
  std::vector<int64_t> rows;  // of each matrix
  std::map<MPSRNNMatrixId, Place> places;
};

Packing packing_of(const Cell& cell) {
  std::vector<int64_t> filled(cell.shapes.size() > 1 ? 2 : 1);
  Packing packing;
  size_t number = 0;
  for (auto shape = cell.shapes.rbegin(); shape != cell.shapes.rend(); ++shape, ++number) {
    int64_t& next = filled[number % filled.size()];
    packing.places[shape->first] = {number % filled.size(), next};
    next += shape->second.rows * shape->second.columns;
  }
  for (const int64_t elements : filled) packing.rows.push_back((elements + columns - 1) / columns);
  return packing;
}

Weights unpack(const Cell& cell, const Packing& packing, const std::vector<Rows>& matrices) {
  Values values;
  for (const Rows& rows : matrices) values.push_back(rows.load());
  Weights weights;
  for (const auto& [id, place] : packing.places) {
    const MatrixSize shape = cell.shapes.at(id);
    for (int64_t i = 0; i < shape.rows * shape.columns; ++i)
      weights[id].push_back(values[place.matrix].real(place.first + i));
  }
  return weights;
}

void pack(const Packing& packing, const Weights& weights, const std::vector<Rows>& matrices) {
  Values values;
  for (const Rows& rows : matrices) values.emplace_back(rows.type, Dims{rows.rows, rows.columns});
  for (const auto& [id, place] : packing.places)
    for (size_t i = 0; i < weights.at(id).size(); ++i)
      values[place.matrix].set(place.first + static_cast<int64_t>(i), weights.at(id)[i]);
  for (size_t i = 0; i < matrices.size(); ++i) matrices[i].store(values[i]);
}

}  // namespace

// --- training states -------------------------------------------------------------------------------------------------

// Values of a time step that its gradient reads.
@interface MPSRNNMatrixTrainingState () {
 @package
  std::shared_ptr<std::vector<Step>> steps;  // one per row, filled when the command runs
}
@end

@implementation MPSRNNMatrixTrainingState
@end

namespace {

MPSRNNMatrixTrainingState* training_state(id<MTLCommandBuffer> buffer, bool is_temporary) {
  MPSRNNMatrixTrainingState* state = [MPSRNNMatrixTrainingState alloc];
  state = is_temporary ? [state initForBuffer:buffer recipes:@[]]
                       : [state initForDevice:commands_of(buffer).device recipes:@[]];
  const auto steps = std::make_shared<std::vector<Step>>();
  state->steps = steps;
  if (state->reads) state->reads->spoil = [steps] { steps->clear(); };
  return state;
}

}  // namespace

// --- the layer -------------------------------------------------------------------------------------------------------

@implementation MPSRNNMatrixTrainingLayer {
  std::shared_ptr<const Cell> _cell;
  Packing _packing;
}
@synthesize storeAllIntermediateStates = _storeAllIntermediateStates;
@synthesize recurrentOutputIsTemporary = _recurrentOutputIsTemporary;
@synthesize trainingStateIsTemporary = _trainingStateIsTemporary;
@synthesize accumulateWeightGradients = _accumulateWeightGradients;

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  misuse(@"initWithDevice: is not available for a recurrent layer");
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 rnnDescriptor:(const MPSRNNDescriptor*)descriptor
              trainableWeights:(NSMutableArray<MPSMatrix*>*)weights {
  if (!(self = [super initWithDevice:device])) return nil;
  _cell = cell_of(descriptor, false);
  if (!_cell) return nil;
  if (_cell->is_backward) misuse(@"a backward direction of a training layer is not documented");
  if (_cell->shapes.empty()) misuse(@"a training layer requires weights");
  _packing = packing_of(*_cell);
  [self createMatrices:weights dataType:_cell->weight_type];
  std::vector<Rows> rows;
  for (MPSMatrix* matrix in weights) rows.push_back(rows_of(matrix));
  pack(_packing, _cell->weights, rows);
  for (MPSMatrix* matrix in weights) [static_cast<MockBuffer*>(matrix.data) synchronize];
  return self;
}
- (NSUInteger)inputFeatureChannels {
  return static_cast<NSUInteger>(_cell->inputs);
}
- (NSUInteger)outputFeatureChannels {
  return static_cast<NSUInteger>(_cell->outputs);
}

- (NSArray<MPSMatrixDescriptor*>*)descriptorsOfType:(MPSDataType)type {
  if (type != MPSDataTypeFloat32 && type != MPSDataTypeFloat16)
    misuse(@"gradients of weights must be float32 or float16, got %s", type_name(type));
  NSMutableArray<MPSMatrixDescriptor*>* result = [NSMutableArray array];
  for (const int64_t rows : _packing.rows)
    [result addObject:[MPSMatrixDescriptor matrixDescriptorWithRows:static_cast<NSUInteger>(rows)
                                                            columns:columns
                                                           rowBytes:[MPSMatrixDescriptor rowBytesForColumns:columns
                                                                                                   dataType:type]
                                                           dataType:type]];
  return result;
}
- (void)createMatrices:(NSMutableArray<MPSMatrix*>*)matrices dataType:(MPSDataType)type {
  if (!matrices || matrices.count != 0) misuse(@"createWeightMatrices: the array of matrices must be empty");
  for (MPSMatrixDescriptor* descriptor in [self descriptorsOfType:type]) {
    MPSMatrix* matrix = [[MPSMatrix alloc] initWithDevice:self.device descriptor:descriptor];
    const std::vector<char> zeros(matrix.data.length);
    [static_cast<MockBuffer*>(matrix.data) fillWithBytes:zeros.data()];
    [matrices addObject:matrix];
  }
}
- (void)createWeightMatrices:(NSMutableArray<MPSMatrix*>*)matrices {
  [self createMatrices:matrices dataType:_cell->weight_type];
}
- (void)createWeightGradientMatrices:(NSMutableArray<MPSMatrix*>*)matrices dataType:(MPSDataType)type {
  [self createMatrices:matrices dataType:type];
}
- (void)createTemporaryWeightGradientMatrices:(NSMutableArray<MPSMatrix*>*)matrices
                                     dataType:(MPSDataType)type
                                commandBuffer:(id<MTLCommandBuffer>)buffer {
  if (!matrices || matrices.count != 0)
    misuse(@"createTemporaryWeightGradientMatrices: the array of matrices must be empty");
  for (MPSMatrixDescriptor* descriptor in [self descriptorsOfType:type])
    [matrices addObject:[MPSTemporaryMatrix temporaryMatrixWithCommandBuffer:buffer matrixDescriptor:descriptor]];
}

// Return the rows of weights or their gradients, and raise if the matrices do not match this layer.
- (std::vector<Rows>)packed:(NSArray<MPSMatrix*>*)matrices areWeights:(BOOL)areWeights {
  if (matrices.count != _packing.rows.size())
    misuse(@"the layer requires %lu matrices of weights, got %lu", _packing.rows.size(), matrices.count);
  std::vector<Rows> result;
  for (MPSMatrix* matrix in matrices) {
    const Rows rows = rows_of(matrix);
    const bool is_right_type = areWeights ? rows.type == _cell->weight_type : is_real(rows.type);
    if (rows.rows != _packing.rows[result.size()] || rows.columns != columns || !is_right_type)
      misuse(@"a matrix of %ld x %ld of %s does not match the layer's weights of %ld x %ld", rows.rows, rows.columns,
             type_name(rows.type), _packing.rows[result.size()], columns);
    result.push_back(rows);
  }
  return result;
}

- (void)encodeCopyWeightsToCommandBuffer:(id<MTLCommandBuffer>)buffer
                                 weights:(NSArray<MPSMatrix*>*)weights
                                matrixId:(MPSRNNMatrixId)matrixId
                                  matrix:(MPSMatrix*)matrix
                 copyFromWeightsToMatrix:(BOOL)fromWeights
                            matrixOffset:(MTLOrigin)offset {
  const auto found = _cell->shapes.find(matrixId);
  if (found == _cell->shapes.end()) misuse(@"the layer has no matrix with ID %lu", static_cast<NSUInteger>(matrixId));
  const MatrixSize shape = found->second;
  Rows part = rows_of(matrix);
  if (offset.x != 0 || offset.y != 0 || offset.z != 0)
    misuse(@"the meaning of a nonzero matrixOffset is not documented");
  if (shape.rows > part.rows || shape.columns > part.columns)
    misuse(@"weights of %ld x %ld do not fit into a matrix of %ld x %ld", shape.rows, shape.columns, part.rows,
           part.columns);
  part.rows = shape.rows;
  part.columns = shape.columns;
  const auto cell = _cell;
  const Packing packing = _packing;
  const std::vector<Rows> rows = [self packed:weights areWeights:NO];
  NSArray* const one = @[ matrix ];
  encode(buffer, @"encodeCopyWeightsToCommandBuffer", fromWeights ? weights : one, fromWeights ? one : weights, [=] {
    Weights all = unpack(*cell, packing, rows);
    if (fromWeights) {
      const Vector& numbers = all.at(matrixId);
      Value value(part.type, {shape.rows, shape.columns});
      for (size_t i = 0; i < numbers.size(); ++i) value.set(static_cast<int64_t>(i), numbers[i]);
      part.store(value);
    } else {
      const Value value = part.load();
      for (int64_t i = 0; i < value.count(); ++i) all.at(matrixId)[i] = value.real(i);
      pack(packing, all, rows);
    }
  });
}

// --- forward ---------------------------------------------------------------------------------------------------------

- (void)encodeForwardSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                              sourceMatrices:(NSArray<MPSMatrix*>*)sources
                         destinationMatrices:(NSArray<MPSMatrix*>*)destinations
                              trainingStates:(NSMutableArray<MPSRNNMatrixTrainingState*>*)states
                                     weights:(NSArray<MPSMatrix*>*)weights {
  [self encodeForwardSequenceToCommandBuffer:buffer
                              sourceMatrices:sources
                               sourceOffsets:nullptr
                         destinationMatrices:destinations
                          destinationOffsets:nullptr
                              trainingStates:states
                         recurrentInputState:nil
                       recurrentOutputStates:nil
                                     weights:weights];
}

- (void)encodeForwardSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                              sourceMatrices:(NSArray<MPSMatrix*>*)sources
                               sourceOffsets:(NSUInteger*)sourceOffsets
                         destinationMatrices:(NSArray<MPSMatrix*>*)destinations
                          destinationOffsets:(NSUInteger*)destinationOffsets
                              trainingStates:(NSMutableArray<MPSRNNMatrixTrainingState*>*)states
                         recurrentInputState:(MPSRNNRecurrentMatrixState*)inputState
                       recurrentOutputStates:(NSMutableArray<MPSRNNRecurrentMatrixState*>*)outputStates
                                     weights:(NSArray<MPSMatrix*>*)weights {
  NSString* const who = @"encodeForwardSequenceToCommandBuffer";
  const auto from = sequence_of(who, sources, sourceOffsets, _cell->inputs);
  const auto to = sequence_of(who, destinations, destinationOffsets, _cell->outputs);
  require_apart(who, from, to);
  if (!states || to.size() != from.size())
    misuse(@"%@ requires an array of training states and as many destinations as sources, got %lu sources and %lu "
            "destinations",
           who, from.size(), to.size());
  for (size_t t = 0; t < from.size(); ++t)
    if (from[t].rows != to[t].rows)
      misuse(@"%@ requires as many result rows as source rows, got %ld source and %ld result rows", who, from[t].rows,
             to[t].rows);
  const auto rows = [self packed:weights areWeights:YES];
  const Recurrent before = recurrent_of(inputState, 0);
  std::vector<std::shared_ptr<std::vector<Step>>> records;
  std::vector<Recurrent> after(from.size());
  NSMutableArray* writes = [destinations mutableCopy];
  for (size_t t = 0; t < from.size(); ++t) {
    MPSRNNMatrixTrainingState* state = training_state(buffer, _trainingStateIsTemporary);
    [states addObject:state];
    records.push_back(state->steps);
    if (!outputStates || (!_storeAllIntermediateStates && t + 1 < from.size())) continue;
    MPSRNNRecurrentMatrixState* output =
        recurrent_state(buffer, _recurrentOutputIsTemporary, {_cell.get()}, static_cast<NSUInteger>(from[t].rows));
    [outputStates addObject:output];
    after[t] = recurrent_of(output, 0);
  }
  const auto cell = _cell;
  const Packing packing = _packing;
  NSMutableArray* reads = [NSMutableArray array];
  [reads addObjectsFromArray:sources];
  [reads addObjectsFromArray:weights];
  if (inputState) [reads addObject:inputState];
  encode(buffer, who, reads, writes, [=] {
    const Weights trained = unpack(*cell, packing, rows);
    Tables state = load_recurrent(before, *cell, static_cast<size_t>(from[0].rows));
    for (size_t t = 0; t < from.size(); ++t) {
      const Table x = load_table(from[t]);
      state.output.resize(x.size());
      state.memory.resize(x.size());
      records[t]->clear();
      for (size_t row = 0; row < x.size(); ++row) {
        records[t]->push_back(forward(*cell, trained, x[row], state.output[row], state.memory[row]));
        state.output[row] = records[t]->back().h1;
        state.memory[row] = records[t]->back().c1;
      }
      store_table(to[t], state.output);
      if (after[t].output.buffer) store_recurrent(after[t], state);
    }
  });
}

// --- gradient --------------------------------------------------------------------------------------------------------

- (void)encodeGradientSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                               forwardSources:(NSArray<MPSMatrix*>*)forwardSources
                              sourceGradients:(NSArray<MPSMatrix*>*)sourceGradients
                         destinationGradients:(NSArray<MPSMatrix*>*)destinationGradients
                              weightGradients:(NSArray<MPSMatrix*>*)weightGradients
                               trainingStates:(NSArray<MPSRNNMatrixTrainingState*>*)states
                                      weights:(NSArray<MPSMatrix*>*)weights {
  [self encodeGradientSequenceToCommandBuffer:buffer
                               forwardSources:forwardSources
                         forwardSourceOffsets:nullptr
                              sourceGradients:sourceGradients
                        sourceGradientOffsets:nullptr
                         destinationGradients:destinationGradients
                           destinationOffsets:nullptr
                              weightGradients:weightGradients
                               trainingStates:states
                          recurrentInputState:nil
                        recurrentOutputStates:nil
                                      weights:weights];
}

- (void)encodeGradientSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                               forwardSources:(NSArray<MPSMatrix*>*)forwardSources
                         forwardSourceOffsets:(NSUInteger*)forwardSourceOffsets
                              sourceGradients:(NSArray<MPSMatrix*>*)sourceGradients
                        sourceGradientOffsets:(NSUInteger*)sourceGradientOffsets
                         destinationGradients:(NSArray<MPSMatrix*>*)destinationGradients
                           destinationOffsets:(NSUInteger*)destinationOffsets
                              weightGradients:(NSArray<MPSMatrix*>*)weightGradients
                               trainingStates:(NSArray<MPSRNNMatrixTrainingState*>*)states
                          recurrentInputState:(MPSRNNRecurrentMatrixState*)inputState
                        recurrentOutputStates:(NSMutableArray<MPSRNNRecurrentMatrixState*>*)outputStates
                                      weights:(NSArray<MPSMatrix*>*)weights {
  NSString* const who = @"encodeGradientSequenceToCommandBuffer";
  if (inputState || outputStates) misuse(@"%@: the meaning of recurrent states for a gradient is not documented", who);
  const auto sources = sequence_of(who, forwardSources, forwardSourceOffsets, _cell->inputs);
  const auto from = sequence_of(who, sourceGradients, sourceGradientOffsets, _cell->outputs);
  std::vector<Rows> to, gradients;
  if (destinationGradients) to = sequence_of(who, destinationGradients, destinationOffsets, _cell->inputs);
  if (weightGradients) gradients = [self packed:weightGradients areWeights:NO];
  require_apart(who, from, to);
  if (sources.size() != from.size() || states.count != from.size() || (!to.empty() && to.size() != from.size()))
    misuse(@"%@ requires one gradient and one training state for each of %lu sources, got %lu and %lu", who,
           sources.size(), from.size(), states.count);
  for (size_t t = 0; t < from.size(); ++t)
    if (sources[t].rows != from[t].rows || (!to.empty() && to[t].rows != from[t].rows))
      misuse(@"%@ requires gradients with the %ld rows of the sources, got %ld", who, sources[t].rows, from[t].rows);
  const auto rows = [self packed:weights areWeights:YES];
  std::vector<std::shared_ptr<std::vector<Step>>> records;
  for (MPSRNNMatrixTrainingState* state in states) records.push_back(state->steps);
  NSMutableArray *reads = [NSMutableArray array], *writes = [NSMutableArray array];
  for (NSArray* each in @[ forwardSources, sourceGradients, states, weights ]) [reads addObjectsFromArray:each];
  if (destinationGradients) [writes addObjectsFromArray:destinationGradients];
  if (weightGradients) [writes addObjectsFromArray:weightGradients];
  const auto cell = _cell;
  const Packing packing = _packing;
  const bool accumulates = _accumulateWeightGradients;
  encode(buffer, who, reads, writes, [=] {
    const Weights trained = unpack(*cell, packing, rows);
    Weights sums;
    for (const auto& [id, numbers] : trained) sums[id] = Vector(numbers.size());
    if (accumulates && !gradients.empty()) sums = unpack(*cell, packing, gradients);
    Table dh, dc;  // gradients of the states between time steps
    for (size_t t = from.size(); t-- > 0;) {
      const Table given = load_table(from[t]);
      if (records[t]->size() != given.size())
        misuse(@"%@: the training states must come from a forward sequence with the same rows", who);
      dh.resize(given.size(), Vector(static_cast<size_t>(cell->outputs)));
      dc.resize(given.size(), Vector(cell->has_memory() ? static_cast<size_t>(cell->outputs) : 0));
      Table dx;
      for (size_t row = 0; row < given.size(); ++row) {
        for (size_t i = 0; i < given[row].size(); ++i) dh[row][i] += given[row][i];
        const Gradient gradient = backward(*cell, trained, records[t]->at(row), dh[row], dc[row], sums);
        dx.push_back(gradient.x);
        dh[row] = gradient.h0;
        dc[row] = gradient.c0;
      }
      if (!to.empty()) store_table(to[t], dx);
    }
    if (!gradients.empty()) pack(packing, sums, gradients);
  });
}
@end
