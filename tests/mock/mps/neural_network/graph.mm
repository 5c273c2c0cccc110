// MPSNNGraph: pruning, handles, and data sources. See encode.mm for encoding.
//
// Apple does not document the order of handles, so the mock reverses the obvious one. It refuses several inputs if any
// of them has no handle, because callers could not distinguish them.
#include "mps/neural_network/graph.h"

#include <algorithm>

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

// Placeholder handle of an input that has none.
@interface MockHandle : NSObject <MPSHandle>
@end
@implementation MockHandle
+ (BOOL)supportsSecureCoding {
  return YES;
}
- (NSString*)label {
  return nil;
}
@end

namespace {

NSArray* handles_of(NSArray* nodes) {
  NSMutableArray* handles = [NSMutableArray array];
  for (MPSNNImageNode* node in nodes) [handles addObject:node.handle ? node.handle : [[MockHandle alloc] init]];
  return handles;
}

struct Commands {
  __weak MockCommandBuffer* buffer;
};

// Lists the stages of a graph, each after the stages that it depends on.
class Walk {
 public:
  std::vector<std::unique_ptr<Stage>> stages;
  NSMutableArray<MPSNNImageNode*>* inputs = [NSMutableArray array];
  NSMutableArray<MPSNNStateNode*>* labels = [NSMutableArray array];

  Stage* visit(MockFilter* filter) {
    void* const key = (__bridge void*)filter;
    if (const auto found = known_.find(key); found != known_.end()) {
      if (!found->second) misuse(@"the graph has a cycle through %@", filter.name);
      return found->second;
    }
    known_[key] = nullptr;
    auto stage = std::make_unique<Stage>();
    stage->filter = filter;
    stage->image = filter->image;
    if (!stage->image) stage->image = [MPSNNImageNode nodeWithHandle:nil];  // its node was released
    stage->state = filter->state;
    for (MPSNNImageNode* source in filter->sources) visit(source);
    for (MPSNNStateNode* state in filter->labels)
      if ([labels indexOfObjectIdenticalTo:state] == NSNotFound) [labels insertObject:state atIndex:0];
    if (filter->partner) stage->partner = visit(filter->partner);
    if (filter->forward) {
      stage->forward = visit(filter->forward);
      stage->forward->has_gradient = true;
      stage->layer = stage->forward->layer;
    } else {
      stage->layer = filter->layer->copy();
    }
    stage->number = stages.size();
    known_[key] = stage.get();
    stages.push_back(std::move(stage));
    return stages.back().get();
  }
  void visit(MPSNNImageNode* image) {
    if (image->producer)
      visit(image->producer);
    else if ([inputs indexOfObjectIdenticalTo:image] == NSNotFound)
      [inputs insertObject:image atIndex:0];
  }
  Stage* producer(MPSNNImageNode* image) const {
    const auto found = known_.find((__bridge void*)image->producer);
    return found == known_.end() ? nullptr : found->second;
  }

 private:
  std::map<void*, Stage*> known_;
};

// Deactivate the stages that are not needed, including their updates and losses.
void prune(Walk& walk, NSArray<MPSNNImageNode*>* results, const std::vector<bool>& needed) {
  for (NSUInteger i = 0; i < results.count; ++i)
    if (needed[i]) walk.producer(results[i])->is_active = true;
  for (size_t i = walk.stages.size(); i-- > 0;) {
    Stage& stage = *walk.stages[i];
    stage.is_active = stage.is_active || stage.image.exportFromGraph || stage.state.exportFromGraph ||
                      (stage.forward ? stage.layer->trains() : stage.layer->reports());
    if (!stage.is_active) continue;
    for (MPSNNImageNode* source in stage.filter->sources)
      if (Stage* producer = walk.producer(source)) producer->is_active = true;
    if (stage.forward) stage.forward->is_active = true;
    if (stage.partner) stage.partner->is_active = true;
  }
}

}  // namespace

@implementation MPSNNGraph {
  std::vector<Commands> _commands;
}
@synthesize outputStateIsTemporary = _outputStateIsTemporary, format = _format;
@synthesize destinationImageAllocator = _destinationImageAllocator;

+ (instancetype)graphWithDevice:(id<MTLDevice>)device
                    resultImage:(MPSNNImageNode*)result
            resultImageIsNeeded:(BOOL)isNeeded {
  return [[self alloc] initWithDevice:device resultImage:result resultImageIsNeeded:isNeeded];
}
+ (instancetype)graphWithDevice:(id<MTLDevice>)device
                   resultImages:(NSArray<MPSNNImageNode*>*)given
               resultsAreNeeded:(BOOL*)areNeeded {
  return [[self alloc] initWithDevice:device resultImages:given resultsAreNeeded:areNeeded];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  misuse(@"initWithDevice: is not available for an MPSNNGraph; specify its result images");
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   resultImage:(MPSNNImageNode*)result
           resultImageIsNeeded:(BOOL)isNeeded {
  if (!result) misuse(@"initWithDevice:resultImage: the result must not be nil");
  return [self initWithDevice:device resultImages:@[ result ] resultsAreNeeded:&isNeeded];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                  resultImages:(NSArray<MPSNNImageNode*>*)given
              resultsAreNeeded:(BOOL*)areNeeded {
  if (given.count == 0) misuse(@"initWithDevice:resultImages: at least one result is required");
  if (!(self = [super initWithDevice:device])) return nil;
  _format = MPSImageFeatureChannelFormatFloat16;
  _destinationImageAllocator = [MPSImage defaultAllocator];
  results = [given copy];
  for (NSUInteger i = 0; i < results.count; ++i) needed.push_back(!areNeeded || areNeeded[i]);
  Walk walk;
  for (MPSNNImageNode* result in results) {
    if (!result->producer) misuse(@"each result of an MPSNNGraph must be the result of a filter");
    walk.visit(result);
  }
  prune(walk, results, needed);
  stages = std::move(walk.stages);
  inputs = walk.inputs;
  state_inputs = walk.labels;
  NSUInteger nameless = 0;
  for (MPSNNImageNode* input in inputs) nameless += input.handle == nil;
  if (inputs.count > 1 && nameless)
    misuse(@"each input of a graph with several inputs requires a handle, got %lu of %lu without one", nameless,
           inputs.count);
  NSMutableArray* images = [NSMutableArray array];
  NSMutableArray* states = [NSMutableArray array];
  for (const auto& stage : stages) {
    if (stage->image.exportFromGraph) [images insertObject:stage->image atIndex:0];
    if (stage->state.exportFromGraph) [states insertObject:stage->state atIndex:0];
  }
  exports = [images arrayByAddingObjectsFromArray:[results subarrayWithRange:NSMakeRange(1, results.count - 1)]];
  state_exports = states;
  const bool any = std::any_of(stages.begin(), stages.end(), [](const auto& stage) { return stage->is_active; });
  return any && [self loadDataSources] ? self : nil;
}

// Forward and gradient kernels each read the data source.
- (bool)loadDataSources {
  for (const auto& stage : stages)
    if (stage->is_active && !stage->layer->load(self.device)) return false;
  return true;
}

- (void)rememberCommands:(id<MTLCommandBuffer>)buffer {
  _commands.erase(
      std::remove_if(_commands.begin(), _commands.end(), [](const Commands& each) { return each.buffer == nil; }),
      _commands.end());
  _commands.push_back({commands_of(buffer)});
}

- (void)reloadFromDataSources {
  for (const Commands& each : _commands) {
    MockCommandBuffer* buffer = each.buffer;
    if (buffer && buffer.status < MTLCommandBufferStatusCompleted)
      misuse(@"reloadFromDataSources: all work of the graph must be finished");
  }
  _commands.clear();
  if (![self loadDataSources]) misuse(@"reloadFromDataSources: a data source failed to load");
}

- (NSArray<id<MPSHandle>>*)sourceImageHandles {
  return handles_of(inputs);
}
- (NSArray<id<MPSHandle>>*)sourceStateHandles {
  return state_inputs.count ? handles_of(state_inputs) : nil;
}
- (NSArray<id<MPSHandle>>*)intermediateImageHandles {
  return exports.count ? handles_of(exports) : nil;
}
- (NSArray<id<MPSHandle>>*)resultStateHandles {
  return state_exports.count ? handles_of(state_exports) : nil;
}
- (id<MPSHandle>)resultHandle {
  return results[0].handle;
}
- (BOOL)resultImageIsNeeded {
  return needed[0];
}
- (NSUInteger)readCountForSourceImageAtIndex:(NSUInteger)index {
  if (index >= inputs.count)
    misuse(@"readCountForSourceImageAtIndex: index %lu is out of range for %lu images", index, inputs.count);
  return 1;
}
- (NSUInteger)readCountForSourceStateAtIndex:(NSUInteger)index {
  if (index >= state_inputs.count)
    misuse(@"readCountForSourceStateAtIndex: index %lu is out of range for %lu states", index, state_inputs.count);
  return 1;
}
@end
