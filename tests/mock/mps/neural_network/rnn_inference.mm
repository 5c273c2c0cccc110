// MPSRNNMatrixInferenceLayer and MPSRNNImageInferenceLayer: stacks of recurrent layers, in one or two directions.
//
// In a bidirectional sequence, each layer reads the results of the layer below that runs in the same direction;
// otherwise, all layers run forward. Images in a sequence must have one pixel, because the meaning of larger images is
// not documented.
#include <algorithm>

#include "mps/core/image.h"
#include "mps/neural_network/rnn_sequence.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

using Cells = std::vector<std::shared_ptr<const Cell>>;

Cells cells_of(NSArray<const MPSRNNDescriptor*>* descriptors, bool always_half) {
  if (descriptors.count == 0) misuse(@"a recurrent layer requires at least one descriptor");
  Cells cells;
  for (const MPSRNNDescriptor* descriptor in descriptors) {
    std::shared_ptr<const Cell> cell = cell_of(descriptor, always_half);
    if (!cell) return {};
    cells.push_back(cell);
  }
  return cells;
}

std::vector<const Cell*> pointers(const Cells& cells) {
  std::vector<const Cell*> result;
  for (const auto& cell : cells) result.push_back(cell.get());
  return result;
}

// Raise unless the input channels of each layer match the output channels of the layer below.
void require_stack(NSString* who, const Cells& cells) {
  if (cells.empty()) misuse(@"%@: each direction requires at least one layer", who);
  for (size_t i = 1; i < cells.size(); ++i)
    if (cells[i]->inputs != cells[i - 1]->outputs)
      misuse(@"%@: layer %lu must have the %ld output channels of the layer below as inputs, got %ld", who, i,
             cells[i - 1]->outputs, cells[i]->inputs);
}

// Return the outputs of the last layer at each time step. `states` has one entry per layer and is updated. `after` is
// called with the index of each finished step.
std::vector<Table> run(const Cells& cells, const std::vector<Table>& sources, std::vector<Tables>& states,
                       const std::function<void(size_t)>& after) {
  std::vector<Table> results;
  for (size_t t = 0; t < sources.size(); ++t) {
    Table x = sources[t];
    for (size_t layer = 0; layer < cells.size(); ++layer) {
      Tables& state = states[layer];
      state.output.resize(x.size());
      state.memory.resize(x.size());
      for (size_t row = 0; row < x.size(); ++row) {
        const Step step = forward(*cells[layer], cells[layer]->weights, x[row], state.output[row], state.memory[row]);
        state.output[row] = step.h1;
        state.memory[row] = step.c1;
      }
      x = state.output;
    }
    results.push_back(x);
    after(t);
  }
  return results;
}

std::vector<Tables> zeros(const Cells& cells, size_t rows) {
  std::vector<Tables> states;
  for (const auto& cell : cells) states.push_back(load_recurrent({}, *cell, rows));
  return states;
}

// Results of both directions, in temporal order.
struct Both {
  std::vector<Table> forward, backward;
};

Both run_both(const Cells& forward, const Cells& backward, std::vector<Table> sources) {
  const auto nothing = [](size_t) {};
  auto states = zeros(forward, sources[0].size());
  Both both{run(forward, sources, states, nothing), {}};
  std::reverse(sources.begin(), sources.end());
  states = zeros(backward, sources[0].size());
  both.backward = run(backward, sources, states, nothing);
  std::reverse(both.backward.begin(), both.backward.end());
  return both;
}

std::vector<Table> combined(MPSRNNBidirectionalCombineMode mode, const Both& both) {
  std::vector<Table> results = both.forward;
  for (size_t t = 0; t < results.size(); ++t)
    for (size_t row = 0; row < results[t].size(); ++row) {
      const Vector& other = both.backward[t][row];
      Vector& mine = results[t][row];
      if (mode == MPSRNNBidirectionalCombineModeConcatenate) mine.insert(mine.end(), other.begin(), other.end());
      for (size_t i = 0; mode == MPSRNNBidirectionalCombineModeAdd && i < mine.size(); ++i) mine[i] += other[i];
    }
  return results;
}

Cells in_direction(const Cells& cells, bool is_backward) {
  Cells result;
  for (const auto& cell : cells)
    if (cell->is_backward == is_backward) result.push_back(cell);
  return result;
}

// Return the number of result channels of a bidirectional sequence, and raise if the directions do not match.
int64_t combined_outputs(NSString* who, MPSRNNBidirectionalCombineMode mode, const Cells& forward,
                         const Cells& backward, bool has_second) {
  require_stack(who, forward);
  require_stack(who, backward);
  if (forward[0]->inputs != backward[0]->inputs)
    misuse(@"%@: both directions must have the same input channels, got %ld and %ld", who, forward[0]->inputs,
           backward[0]->inputs);
  if (has_second != (mode == MPSRNNBidirectionalCombineModeNone))
    misuse(@"%@: the combine mode none requires a second list of results, and other modes must not have one", who);
  const int64_t first = forward.back()->outputs, second = backward.back()->outputs;
  if (mode == MPSRNNBidirectionalCombineModeAdd && first != second)
    misuse(@"%@: results with %ld and %ld channels cannot be added", who, first, second);
  return mode == MPSRNNBidirectionalCombineModeConcatenate ? first + second : first;
}

}  // namespace

// --- matrices --------------------------------------------------------------------------------------------------------

@implementation MPSRNNMatrixInferenceLayer {
  Cells _cells;
}
@synthesize recurrentOutputIsTemporary = _recurrentOutputIsTemporary;
@synthesize storeAllIntermediateStates = _storeAllIntermediateStates;
@synthesize bidirectionalCombineMode = _bidirectionalCombineMode;

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  misuse(@"initWithDevice: is not available for a recurrent layer");
}
- (instancetype)initWithDevice:(id<MTLDevice>)device rnnDescriptor:(const MPSRNNDescriptor*)descriptor {
  return [self initWithDevice:device rnnDescriptors:@[ (MPSRNNDescriptor*)descriptor ]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device rnnDescriptors:(NSArray<const MPSRNNDescriptor*>*)descriptors {
  if (!(self = [super initWithDevice:device])) return nil;
  _cells = cells_of(descriptors, false);
  return _cells.empty() ? nil : self;
}
- (NSUInteger)inputFeatureChannels {
  return static_cast<NSUInteger>(_cells.front()->inputs);
}
- (NSUInteger)outputFeatureChannels {
  return static_cast<NSUInteger>(_cells.back()->outputs);
}
- (NSUInteger)numberOfLayers {
  return _cells.size();
}

- (void)encodeSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                       sourceMatrices:(NSArray<MPSMatrix*>*)sources
                  destinationMatrices:(NSArray<MPSMatrix*>*)destinations
                  recurrentInputState:(MPSRNNRecurrentMatrixState*)inputState
                recurrentOutputStates:(NSMutableArray<MPSRNNRecurrentMatrixState*>*)outputStates {
  [self encodeSequenceToCommandBuffer:buffer
                       sourceMatrices:sources
                        sourceOffsets:nullptr
                  destinationMatrices:destinations
                   destinationOffsets:nullptr
                  recurrentInputState:inputState
                recurrentOutputStates:outputStates];
}

- (void)encodeSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                       sourceMatrices:(NSArray<MPSMatrix*>*)sources
                        sourceOffsets:(NSUInteger*)sourceOffsets
                  destinationMatrices:(NSArray<MPSMatrix*>*)destinations
                   destinationOffsets:(NSUInteger*)destinationOffsets
                  recurrentInputState:(MPSRNNRecurrentMatrixState*)inputState
                recurrentOutputStates:(NSMutableArray<MPSRNNRecurrentMatrixState*>*)outputStates {
  NSString* const who = @"encodeSequenceToCommandBuffer";
  require_stack(who, _cells);
  const auto from = sequence_of(who, sources, sourceOffsets, _cells.front()->inputs);
  const auto to = sequence_of(who, destinations, destinationOffsets, _cells.back()->outputs);
  require_apart(who, from, to);
  if (from.size() != to.size())
    misuse(@"%@ requires as many destinations as sources, got %lu sources and %lu destinations", who, from.size(),
           to.size());
  std::vector<Recurrent> before;
  for (size_t layer = 0; layer < _cells.size(); ++layer) before.push_back(recurrent_of(inputState, layer));
  std::vector<std::vector<Recurrent>> after(from.size());
  for (size_t t = 0; t < from.size(); ++t) {
    if (from[t].rows != to[t].rows)
      misuse(@"%@ requires as many result rows as source rows, got %ld source and %ld result rows", who, from[t].rows,
             to[t].rows);
    if (!outputStates || (!_storeAllIntermediateStates && t + 1 < from.size())) continue;
    MPSRNNRecurrentMatrixState* state =
        recurrent_state(buffer, _recurrentOutputIsTemporary, pointers(_cells), static_cast<NSUInteger>(from[t].rows));
    [outputStates addObject:state];
    for (size_t layer = 0; layer < _cells.size(); ++layer) after[t].push_back(recurrent_of(state, layer));
  }
  const Cells cells = _cells;
  NSArray* reads = inputState ? [(NSArray*)sources arrayByAddingObject:inputState] : sources;
  encode(buffer, who, reads, destinations, [=] {
    std::vector<Tables> states;
    for (size_t layer = 0; layer < cells.size(); ++layer)
      states.push_back(load_recurrent(before[layer], *cells[layer], static_cast<size_t>(from[0].rows)));
    std::vector<Table> given;
    for (const Rows& rows : from) given.push_back(load_table(rows));
    const auto results = run(cells, given, states, [&](size_t t) {
      for (size_t layer = 0; layer < after[t].size(); ++layer) store_recurrent(after[t][layer], states[layer]);
    });
    for (size_t t = 0; t < to.size(); ++t) store_table(to[t], results[t]);
  });
}

- (void)encodeBidirectionalSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                                    sourceSequence:(NSArray<MPSMatrix*>*)sources
                        destinationForwardMatrices:(NSArray<MPSMatrix*>*)firstResults
                       destinationBackwardMatrices:(NSArray<MPSMatrix*>*)secondResults {
  NSString* const who = @"encodeBidirectionalSequenceToCommandBuffer";
  const Cells forward = in_direction(_cells, false), backward = in_direction(_cells, true);
  const MPSRNNBidirectionalCombineMode mode = _bidirectionalCombineMode;
  const int64_t outputs = combined_outputs(who, mode, forward, backward, secondResults != nil);
  const auto from = sequence_of(who, sources, nullptr, forward[0]->inputs);
  const auto to = sequence_of(who, firstResults, nullptr, outputs);
  std::vector<Rows> second;
  if (secondResults) second = sequence_of(who, secondResults, nullptr, backward.back()->outputs);
  for (const Rows& rows : from)
    if (rows.rows != from[0].rows)
      misuse(@"%@ requires sequences of the same length, so each step must have %ld rows, got %ld", who, from[0].rows,
             rows.rows);
  if (to.size() != from.size() || (secondResults && second.size() != from.size()) || to[0].rows != from[0].rows)
    misuse(@"%@ requires destinations that match the sources, got %lu sources and %lu destinations", who, from.size(),
           to.size());
  NSArray* writes = secondResults ? [(NSArray*)firstResults arrayByAddingObjectsFromArray:secondResults] : firstResults;
  encode(buffer, who, sources, writes, [=] {
    std::vector<Table> given;
    for (const Rows& rows : from) given.push_back(load_table(rows));
    const Both both = run_both(forward, backward, given);
    const auto results = combined(mode, both);
    for (size_t t = 0; t < to.size(); ++t) store_table(to[t], results[t]);
    for (size_t t = 0; t < second.size(); ++t) store_table(second[t], both.backward[t]);
  });
}
@end

// --- images ----------------------------------------------------------------------------------------------------------

@interface MPSRNNRecurrentImageState () {
 @package
  NSArray<MPSImage*>* outputs;
  NSArray* memories;  // NSNull for layers without a memory
}
@end

@implementation MPSRNNRecurrentImageState
- (MPSImage*)getRecurrentOutputImageForLayerIndex:(NSUInteger)layer {
  return outputs[layer];
}
- (MPSImage*)getMemoryCellImageForLayerIndex:(NSUInteger)layer {
  id memory = memories[layer];
  return memory == [NSNull null] ? nil : memory;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  for (MPSImage* output in outputs) [output synchronizeOnCommandBuffer:buffer];
  for (id memory in memories)
    if (memory != [NSNull null]) [(MPSImage*)memory synchronizeOnCommandBuffer:buffer];
}
@end

namespace {

std::vector<Pixels> sequence_of_images(NSString* who, NSArray<MPSImage*>* images, int64_t channels) {
  require_alike(who, images);
  std::vector<Pixels> result;
  for (MPSImage* image in images) result.push_back(pixels_of(image));
  if (result[0].height != 1 || result[0].width != 1 || result[0].channels != channels)
    misuse(@"%@ requires images with one pixel of %ld channels, got %ld x %ld x %ld", who, channels, result[0].height,
           result[0].width, result[0].channels);
  return result;
}

Table load_pixel(const Pixels& pixels) {
  const Value value = pixels.load();
  Vector row;
  for (int64_t i = 0; i < value.count(); ++i) row.push_back(value.real(i));
  return {row};
}

void store_pixel(const Pixels& pixels, const Table& table) {
  Value value = pixels.blank();
  for (int64_t i = 0; i < value.count(); ++i) value.set(i, table.at(0).at(i));
  pixels.store(value);
}

MPSRNNRecurrentImageState* image_state(id<MTLCommandBuffer> buffer, bool is_temporary, const Cells& cells) {
  id<MTLDevice> device = commands_of(buffer).device;
  const auto made = [&](int64_t channels) {
    MPSImageDescriptor* descriptor =
        [MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat16
                                                       width:1
                                                      height:1
                                             featureChannels:static_cast<NSUInteger>(channels)];
    if (is_temporary) descriptor.storageMode = MTLStorageModePrivate;
    return [[MPSImage alloc] initWithDevice:device imageDescriptor:descriptor];
  };
  MPSRNNRecurrentImageState* state = [MPSRNNRecurrentImageState alloc];
  state = is_temporary ? [state initForBuffer:buffer recipes:@[]] : [state initForDevice:device recipes:@[]];
  NSMutableArray *outputs = [NSMutableArray array], *memories = [NSMutableArray array];
  for (const auto& cell : cells) {
    [outputs addObject:made(cell->outputs)];
    [memories addObject:cell->has_memory() ? (id)made(cell->outputs) : [NSNull null]];
  }
  state->outputs = outputs;
  state->memories = memories;
  return state;
}

// Output and memory images of a layer. Missing images have no texture.
struct ImagePair {
  Pixels output, memory;
};

std::vector<ImagePair> pairs_of(MPSRNNRecurrentImageState* state) {
  std::vector<ImagePair> result;
  for (NSUInteger layer = 0; layer < state->outputs.count; ++layer) {
    MPSImage* memory = [state getMemoryCellImageForLayerIndex:layer];
    result.push_back({pixels_of(state->outputs[layer]), memory ? pixels_of(memory) : Pixels{}});
  }
  return result;
}

}  // namespace

@implementation MPSRNNImageInferenceLayer {
  Cells _cells;
}
@synthesize recurrentOutputIsTemporary = _recurrentOutputIsTemporary;
@synthesize storeAllIntermediateStates = _storeAllIntermediateStates;
@synthesize bidirectionalCombineMode = _bidirectionalCombineMode;

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  misuse(@"initWithDevice: is not available for a recurrent layer");
}
- (instancetype)initWithDevice:(id<MTLDevice>)device rnnDescriptor:(const MPSRNNDescriptor*)descriptor {
  return [self initWithDevice:device rnnDescriptors:@[ (MPSRNNDescriptor*)descriptor ]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device rnnDescriptors:(NSArray<const MPSRNNDescriptor*>*)descriptors {
  if (!(self = [super initWithDevice:device])) return nil;
  _cells = cells_of(descriptors, true);
  return _cells.empty() ? nil : self;
}
- (NSUInteger)inputFeatureChannels {
  return static_cast<NSUInteger>(_cells.front()->inputs);
}
- (NSUInteger)outputFeatureChannels {
  return static_cast<NSUInteger>(_cells.back()->outputs);
}
- (NSUInteger)numberOfLayers {
  return _cells.size();
}

- (void)encodeSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                         sourceImages:(NSArray<MPSImage*>*)sources
                    destinationImages:(NSArray<MPSImage*>*)destinations
                  recurrentInputState:(MPSRNNRecurrentImageState*)inputState
                recurrentOutputStates:(NSMutableArray<MPSRNNRecurrentImageState*>*)outputStates {
  NSString* const who = @"encodeSequenceToCommandBuffer";
  require_stack(who, _cells);
  const auto from = sequence_of_images(who, sources, _cells.front()->inputs);
  const auto to = sequence_of_images(who, destinations, _cells.back()->outputs);
  if (from.size() != to.size())
    misuse(@"%@ requires as many destinations as sources, got %lu sources and %lu destinations", who, from.size(),
           to.size());
  std::vector<ImagePair> before;
  if (inputState) before = pairs_of(inputState);
  std::vector<std::vector<ImagePair>> after(from.size());
  for (size_t t = 0; outputStates && t < from.size(); ++t) {
    if (!_storeAllIntermediateStates && t + 1 < from.size()) continue;
    MPSRNNRecurrentImageState* state = image_state(buffer, _recurrentOutputIsTemporary, _cells);
    [outputStates addObject:state];
    after[t] = pairs_of(state);
  }
  const Cells cells = _cells;
  NSArray* reads = inputState ? [(NSArray*)sources arrayByAddingObject:inputState] : sources;
  encode(buffer, who, reads, destinations, [=] {
    std::vector<Tables> states = zeros(cells, 1);
    for (size_t layer = 0; layer < before.size(); ++layer) {
      states[layer].output = load_pixel(before[layer].output);
      if (before[layer].memory.texture) states[layer].memory = load_pixel(before[layer].memory);
    }
    std::vector<Table> given;
    for (const Pixels& pixels : from) given.push_back(load_pixel(pixels));
    const auto results = run(cells, given, states, [&](size_t t) {
      for (size_t layer = 0; layer < after[t].size(); ++layer) {
        store_pixel(after[t][layer].output, states[layer].output);
        if (after[t][layer].memory.texture) store_pixel(after[t][layer].memory, states[layer].memory);
      }
    });
    for (size_t t = 0; t < to.size(); ++t) store_pixel(to[t], results[t]);
  });
}

- (void)encodeBidirectionalSequenceToCommandBuffer:(id<MTLCommandBuffer>)buffer
                                    sourceSequence:(NSArray<MPSImage*>*)sources
                          destinationForwardImages:(NSArray<MPSImage*>*)firstResults
                         destinationBackwardImages:(NSArray<MPSImage*>*)secondResults {
  NSString* const who = @"encodeBidirectionalSequenceToCommandBuffer";
  const Cells forward = in_direction(_cells, false), backward = in_direction(_cells, true);
  const MPSRNNBidirectionalCombineMode mode = _bidirectionalCombineMode;
  const int64_t outputs = combined_outputs(who, mode, forward, backward, secondResults != nil);
  const auto from = sequence_of_images(who, sources, forward[0]->inputs);
  const auto to = sequence_of_images(who, firstResults, outputs);
  std::vector<Pixels> second;
  if (secondResults) second = sequence_of_images(who, secondResults, backward.back()->outputs);
  if (to.size() != from.size() || (secondResults && second.size() != from.size()))
    misuse(@"%@ requires as many destinations as sources, got %lu sources and %lu destinations", who, from.size(),
           to.size());
  NSArray* writes = secondResults ? [(NSArray*)firstResults arrayByAddingObjectsFromArray:secondResults] : firstResults;
  encode(buffer, who, sources, writes, [=] {
    std::vector<Table> given;
    for (const Pixels& pixels : from) given.push_back(load_pixel(pixels));
    const Both both = run_both(forward, backward, given);
    const auto results = combined(mode, both);
    for (size_t t = 0; t < to.size(); ++t) store_pixel(to[t], results[t]);
    for (size_t t = 0; t < second.size(); ++t) store_pixel(second[t], both.backward[t]);
  });
}
@end
