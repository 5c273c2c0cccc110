// MPSNNGraph in the mock: the filters that its results need, in an order in which they can run.
#pragma once

#include "mps/neural_network/layer.h"

namespace mock {

struct Stage {
  MockFilter* filter = nil;
  std::shared_ptr<Layer> layer;  // the forward filter's layer for a gradient filter
  MPSNNImageNode* image = nil;
  MPSNNStateNode* state = nil;
  Stage *forward = nullptr, *partner = nullptr;
  size_t number = 0;  // index in the graph's stages
  bool is_active = false;  // false if the stage is pruned
  bool has_gradient = false;  // the graph contains a gradient of this filter
};

// Arguments and outputs of an encode.
struct Arguments {
  NSArray<MPSImageBatch*>* images;
  NSArray<MPSStateBatch*>* states;
  NSMutableArray<MPSImageBatch*>* intermediate_images;
  NSMutableArray<MPSStateBatch*>* destination_states;
};

}  // namespace mock

@interface MPSNNGraph () {
 @package
  std::vector<std::unique_ptr<mock::Stage>> stages;
  NSArray<MPSNNImageNode*>* inputs;
  NSArray<MPSNNStateNode*>* state_inputs;
  NSArray<MPSNNImageNode*>* results;
  std::vector<bool> needed;  // one flag for each result
  NSArray<MPSNNImageNode*>* exports;
  NSArray<MPSNNStateNode*>* state_exports;
  std::mutex encoding;
}
- (MPSImageBatch*)encodeTo:(id<MTLCommandBuffer>)buffer who:(NSString*)who arguments:(const mock::Arguments&)arguments;
- (void)rememberCommands:(id<MTLCommandBuffer>)buffer;  // their work must finish before data sources are reloaded
@end
