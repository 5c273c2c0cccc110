// Encoding of an MPSNNGraph. Sizes, images, states, and updates are determined during the encode; values are computed
// when the command buffer runs.
#include <random>

#include "mps/neural_network/graph.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

struct Slot {
  Shape shape;
  MPSImageFeatureChannelFormat format = MPSImageFeatureChannelFormatNone;
  std::shared_ptr<const Images> images;  // null until computed
};

// State of one encode, which its work captures. It holds memory, but neither images nor states, whose lifetime the
// application controls.
struct Encoded {
  std::map<void*, Slot> slots;  // keyed by image node
  std::vector<Call> calls;  // one for each stage

  Slot& slot(MPSNNImageNode* node) { return slots.at((__bridge void*)node); }
};

std::vector<Pixels> pixels_of_batch(MPSImageBatch* batch) {
  std::vector<Pixels> result;
  for (MPSImage* image in batch) result.push_back(pixels_of(image));
  return result;
}

Images load(const std::vector<Pixels>& batch) {
  const Pixels& first = batch[0];
  Images result(static_cast<int64_t>(batch.size()), {first.height, first.width, first.channels});
  size_t at = 0;
  for (const Pixels& pixels : batch) {
    const Value value = pixels.load();
    for (int64_t i = 0; i < value.count(); ++i) result.v[at++] = value.real(i);
  }
  return result;
}

void store(const Images& images, const std::vector<Pixels>& batch) {
  size_t at = 0;
  for (const Pixels& pixels : batch) {
    Value value = pixels.blank();
    for (int64_t i = 0; i < value.count(); ++i) value.set(i, images.v[at++]);
    pixels.store(value);
  }
}

MPSImageBatch* allocate(id<MPSImageAllocator> allocator, const Call& call, const Slot& slot) {
  MPSImageDescriptor* descriptor =
      [MPSImageDescriptor imageDescriptorWithChannelFormat:slot.format
                                                     width:static_cast<NSUInteger>(slot.shape.width)
                                                    height:static_cast<NSUInteger>(slot.shape.height)
                                           featureChannels:static_cast<NSUInteger>(slot.shape.channels)];
  MPSCNNKernel* kernel = [[MPSCNNKernel alloc] initForWindows:call.windows device:call.device];
  const auto count = static_cast<NSUInteger>(call.batch);
  MPSImageBatch* batch;
  if ([allocator respondsToSelector:@selector(imageBatchForCommandBuffer:imageDescriptor:kernel:count:)]) {
    batch = [allocator imageBatchForCommandBuffer:call.buffer imageDescriptor:descriptor kernel:kernel count:count];
  } else {
    NSMutableArray<MPSImage*>* made = [NSMutableArray array];
    for (NSUInteger i = 0; i < count; ++i)
      [made addObject:[allocator imageForCommandBuffer:call.buffer imageDescriptor:descriptor kernel:kernel]];
    batch = made;
  }
  require_alike(call.filter.name, batch);
  const Pixels first = pixels_of(batch[0]);
  if (batch.count != count || first.format != slot.format || first.height != slot.shape.height ||
      first.width != slot.shape.width || first.channels != slot.shape.channels)
    misuse(@"%@: the image allocator must create images with the requested number, format, and size", call.filter.name);
  return batch;
}

void compute(Encoded& encoded, const Stage& stage, const std::vector<Pixels>& to) {
  Call& call = encoded.calls[stage.number];
  Images result;
  if (stage.forward) {
    const Images& of_result = *encoded.slot(stage.filter->sources[0]).images;
    result = stage.layer->gradient(*call.forward, of_result, stage.filter->forward_source);
  } else {
    for (MPSNNImageNode* source in stage.filter->sources) call.sources.push_back(encoded.slot(source).images);
    result = stage.layer->run(call);
  }
  Slot& slot = encoded.slot(stage.image);
  for (double& value : result.v) value = rounded(value, slot.format);
  slot.images = call.result = std::make_shared<const Images>(std::move(result));
  if (!to.empty()) store(*slot.images, to);
}

NSString* input_name(MPSNNImageNode* node) { return node.handle.label ? node.handle.label : @"an input"; }

}  // namespace

@implementation MPSNNGraph (MockEncoding)

- (MPSImageBatch*)encodeTo:(id<MTLCommandBuffer>)buffer who:(NSString*)who arguments:(const Arguments&)given {
  const std::unique_lock alone(encoding, std::try_to_lock);
  if (!alone) misuse(@"%@: two threads must not encode the same MPSNNGraph at the same time", who);
  if (given.images.count != inputs.count)
    misuse(@"%@: the graph requires %lu source images, got %lu", who, inputs.count, given.images.count);
  if (given.states.count != state_inputs.count)
    misuse(@"%@: the graph requires %lu source states, got %lu", who, state_inputs.count, given.states.count);
  const NSUInteger batch = given.images[0].count;
  auto encoded = std::make_shared<Encoded>();
  for (NSUInteger i = 0; i < inputs.count; ++i)
    [self encodeInput:i images:given.images[i] batch:batch to:buffer encoded:encoded.get() who:who];
  for (MPSStateBatch* states in given.states)
    if (states.count != batch)
      misuse(@"%@: each batch of states must match the %lu images, got %lu states", who, batch, states.count);

  encoded->calls.resize(stages.size());
  NSMutableArray<MPSImageBatch*>* made = [NSMutableArray array];  // parallel to `nodes`
  NSMutableArray<MPSNNImageNode*>* nodes = [NSMutableArray array];
  const auto work = [&](const std::function<void(Encoded&)>& run, NSArray* reads, NSArray* writes) {
    auto shared = encoded;
    encode(buffer, who, reads, writes, [shared, run] { run(*shared); });
  };
  for (NSUInteger i = 0; i < inputs.count; ++i) {
    MPSNNImageNode* node = inputs[i];
    const std::vector<Pixels> pixels = pixels_of_batch(given.images[i]);
    work([node, pixels](Encoded& e) { e.slot(node).images = std::make_shared<const Images>(load(pixels)); },
         given.images[i], @[]);
  }
  for (const auto& each : stages) {
    const Stage& stage = *each;
    if (!stage.is_active) continue;
    Call& call = encoded->calls[stage.number];
    call.filter = stage.filter;
    call.buffer = buffer;
    call.device = self.device;
    call.batch = static_cast<int64_t>(batch);
    [self prepare:stage call:call encoded:*encoded states:given.states];

    MPSImageBatch* images = nil;
    const NSUInteger result = [results indexOfObjectIdenticalTo:stage.image];
    const bool is_result = result != NSNotFound && needed[result];
    if (is_result || stage.image.exportFromGraph) {
      images = allocate(is_result ? self.destinationImageAllocator : stage.image.imageAllocator, call,
                        encoded->slot(stage.image));
      if (is_result && stage.image.exportFromGraph) MPSImageBatchIncrementReadCount(images, 1);
      [made addObject:images];
      [nodes addObject:stage.image];
    }
    const std::vector<Pixels> pixels = pixels_of_batch(images);
    const Stage* running = &stage;
    MPSNNGraph* graph = self;  // keeps the stages alive until the work ends
    work(
        [graph, running, pixels](Encoded& e) {
          (void)graph;
          compute(e, *running, pixels);
        },
        @[], images ? images : @[]);
    if (images && stage.image.synchronizeResource) MPSImageBatchSynchronize(images, buffer);
    if (stage.forward) stage.layer->update(*call.forward, buffer);
    // Apple documents that callers must not rely on the command buffer staying uncommitted during an encode, so commit
    // it at random.
    static thread_local std::minstd_rand random(std::random_device{}());
    if ([(id)buffer isKindOfClass:[MPSCommandBuffer class]] && random() % 8 == 0)
      [(MPSCommandBuffer*)buffer commitAndContinue];
  }
  [self rememberCommands:buffer];

  for (MPSNNImageNode* node in exports) {
    const NSUInteger at = [nodes indexOfObjectIdenticalTo:node];
    if (at != NSNotFound) [given.intermediate_images addObject:made[at]];
  }
  for (MPSNNStateNode* node in state_exports)
    for (const auto& stage : stages)
      if (stage->state == node) [given.destination_states addObject:encoded->calls[stage->number].states];
  for (Call& call : encoded->calls) call.states = call.given = nil;
  const NSUInteger first = [nodes indexOfObjectIdenticalTo:results[0]];
  return needed[0] ? made[first] : nil;
}

- (void)encodeInput:(NSUInteger)number
             images:(MPSImageBatch*)images
              batch:(NSUInteger)batch
                 to:(id<MTLCommandBuffer>)buffer
            encoded:(Encoded*)encoded
                who:(NSString*)who {
  if (images.count != batch)
    misuse(@"%@: %@ has %lu images, but another input has %lu", who, input_name(inputs[number]), images.count, batch);
  require_alike([NSString stringWithFormat:@"%@: %@", who, input_name(inputs[number])], images);
  const Pixels first = pixels_of(images[0]);
  encoded->slots[(__bridge void*)inputs[number]] = {{first.height, first.width, first.channels}, first.format, nullptr};
}

- (void)prepare:(const Stage&)stage call:(Call&)call encoded:(Encoded&)encoded states:(NSArray<MPSStateBatch*>*)states {
  for (MPSNNImageNode* source in stage.filter->sources) call.shapes.push_back(encoded.slot(source).shape);
  for (MPSNNStateNode* labels in stage.filter->labels)
    call.given = states[[state_inputs indexOfObjectIdenticalTo:labels]];
  if (stage.partner) call.partner = &encoded.calls[stage.partner->number];
  if (stage.forward) {
    call.forward = &encoded.calls[stage.forward->number];
    if (!(call.shapes[0] == call.forward->shape))
      misuse(@"%@: the gradient must have the shape of the forward result %@, got %@", stage.filter.name,
             text_of(call.forward->shape), text_of(call.shapes[0]));
    call.shape = call.forward->shapes[stage.filter->forward_source];
  } else {
    call.shape = stage.layer->prepare(call);
    const bool shows = stage.state.exportFromGraph;
    if (stage.has_gradient || shows)
      stage.layer->remember(call, shows ? self.outputStateIsTemporary : !stage.layer->by_cpu());
    if (shows && stage.has_gradient)
      for (MPSState* state in call.states)
        if (state.isTemporary) state.readCount = state.readCount + 1;
  }
  MPSImageFeatureChannelFormat format = stage.image.format;
  if (format == MPSImageFeatureChannelFormatNone) format = self.format;
  encoded.slots[(__bridge void*)stage.image] = {call.shape, format, nullptr};
}

// --- Apple's forms ---------------------------------------------------------------------------------------------------

- (MPSImageBatch*)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)buffer
                                sourceImages:(NSArray<MPSImageBatch*>*)images
                                sourceStates:(NSArray<MPSStateBatch*>*)states
                          intermediateImages:(NSMutableArray<MPSImageBatch*>*)intermediate
                           destinationStates:(NSMutableArray<MPSStateBatch*>*)destination {
  return [self encodeTo:buffer who:@"encodeBatchToCommandBuffer" arguments:{images, states, intermediate, destination}];
}
- (MPSImageBatch*)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)buffer
                                sourceImages:(NSArray<MPSImageBatch*>*)images
                                sourceStates:(NSArray<MPSStateBatch*>*)states {
  return [self encodeTo:buffer who:@"encodeBatchToCommandBuffer" arguments:{images, states, nil, nil}];
}
- (MPSImage*)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
                      sourceImages:(NSArray<MPSImage*>*)images
                      sourceStates:(NSArray<MPSState*>*)states
                intermediateImages:(NSMutableArray<MPSImage*>*)intermediate
                 destinationStates:(NSMutableArray<MPSState*>*)destination {
  NSMutableArray<MPSImageBatch*>* batches = [NSMutableArray array];
  NSMutableArray<MPSStateBatch*>* state_batches = [NSMutableArray array];
  NSMutableArray<MPSImageBatch*>* intermediate_batches = [NSMutableArray array];
  NSMutableArray<MPSStateBatch*>* destination_batches = [NSMutableArray array];
  for (MPSImage* image in images) [batches addObject:@[ image ]];
  for (MPSState* state in states) [state_batches addObject:@[ state ]];
  MPSImageBatch* result = [self encodeTo:buffer
                                     who:@"encodeToCommandBuffer"
                               arguments:{batches, state_batches, intermediate_batches, destination_batches}];
  for (MPSImageBatch* batch in intermediate_batches) [intermediate addObject:batch[0]];
  for (MPSStateBatch* batch in destination_batches) [destination addObject:batch[0]];
  return result.firstObject;
}
- (MPSImage*)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer sourceImages:(NSArray<MPSImage*>*)images {
  return [self encodeToCommandBuffer:buffer
                        sourceImages:images
                        sourceStates:nil
                  intermediateImages:nil
                   destinationStates:nil];
}
- (MPSImage*)executeAsyncWithSourceImages:(NSArray<MPSImage*>*)images
                        completionHandler:(MPSNNGraphCompletionHandler)handler {
  if (!needed[0]) misuse(@"executeAsyncWithSourceImages: the first result of the graph must be needed");
  id<MTLCommandBuffer> buffer = [[self.device newCommandQueue] commandBuffer];
  MPSImage* result = [self encodeToCommandBuffer:buffer sourceImages:images];
  [result synchronizeOnCommandBuffer:buffer];
  [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) { handler(done.error ? nil : result, done.error); }];
  [buffer commit];
  return result;
}
@end
