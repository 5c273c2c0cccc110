// What an MPSNNGraph of the mock is: the filters that its results need, in an order in which they can run.
#pragma once

#include "mps/neural_network/layer.h"

namespace mock {

struct Stage {
  MockFilter* filter = nil;
  std::shared_ptr<Layer> layer;  // of a gradient filter: the forward filter's
  MPSNNImageNode* image = nil;
  MPSNNStateNode* state = nil;
  Stage *forward = nullptr, *partner = nullptr;
  size_t number = 0;  // among the graph's stages
  bool is_active = false;  // it runs
  bool has_gradient = false;  // a filter of the graph is its gradient
};

// What an encode is given and gives.
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
  std::vector<bool> needed;  // the results
  NSArray<MPSNNImageNode*>* exports;
  NSArray<MPSNNStateNode*>* state_exports;
  std::mutex encoding;
}
- (MPSImageBatch*)encodeTo:(id<MTLCommandBuffer>)buffer who:(NSString*)who arguments:(const mock::Arguments&)arguments;
- (void)rememberCommands:(id<MTLCommandBuffer>)buffer;  // their work must be over before data sources are read again
@end
