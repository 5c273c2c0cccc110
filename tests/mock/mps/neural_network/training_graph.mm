// Construction of the backward part of a graph from a filter node: gradient nodes in the reverse order of the forward
// nodes, and addition nodes where several filters read the same image.
#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

namespace {

MPSNNFilterNode* node_of(MockFilter* filter) {
  if (MPSNNFilterNode* node = filter->node) return node;
  return [[filter->kind alloc] initWithFilter:filter image:filter->image];
}

// List a filter and the filters that it depends on, each after its sources.
void list_filters(MockFilter* filter, NSMutableArray<MockFilter*>* listed) {
  if (!filter || [listed indexOfObjectIdenticalTo:filter] != NSNotFound) return;
  for (MPSNNImageNode* source in filter->sources)
    if (!source.stopGradient) list_filters(source->producer, listed);
  [listed addObject:filter];
}

using Gradients = std::map<void*, std::vector<MPSNNImageNode*>>;

// Return the sum of the gradients of an image that several filters read, inserting addition nodes as needed.
MPSNNImageNode* summed(MPSNNImageNode* image, Gradients& gradients, MPSGradientNodeBlock handler) {
  std::vector<MPSNNImageNode*>& all = gradients[(__bridge void*)image];
  while (all.size() > 1) {
    MPSNNAdditionNode* sum = [MPSNNAdditionNode nodeWithLeftSource:all[0] rightSource:all[1]];
    MPSNNFilterNode* const none = nil;
    if (handler) handler(sum, (MPSNNFilterNode* _Nonnull)none, image, all[0]);
    all.erase(all.begin());
    all[0] = sum.resultImage;
  }
  return all.empty() ? nil : all[0];
}

}  // namespace

@implementation MPSNNFilterNode (MockTraining)

- (NSArray<MPSNNFilterNode*>*)trainingGraphWithSourceGradient:(MPSNNImageNode*)gradient
                                                  nodeHandler:(MPSGradientNodeBlock)handler {
  NSMutableArray<MockFilter*>* listed = [NSMutableArray array];
  list_filters(filter, listed);
  NSMutableArray<MPSNNFilterNode*>* termini = [NSMutableArray array];
  Gradients gradients;
  const bool is_loss = gradient == nil;  // a loss node's image is the gradient of its source
  if (!is_loss) gradients[(__bridge void*)image] = {gradient};
  const auto pass_on = [&](MockFilter* to, NSUInteger source, MPSNNImageNode* result, MPSNNFilterNode* from) {
    MPSNNImageNode* of = to->sources[source];
    if (!handler) result.handle = of.handle;
    gradients[(__bridge void*)of].push_back(result);
    const bool ends = of.stopGradient || !of->producer;
    if (ends) [termini addObject:from];
  };
  for (NSUInteger i = listed.count; i-- > 0;) {
    MockFilter* each = listed[i];
    if (each == filter && is_loss) {
      pass_on(each, 0, image, self);
      continue;
    }
    MPSNNImageNode* its_image = each->image;
    MPSNNImageNode* arriving = its_image ? summed(its_image, gradients, handler) : nil;
    if (!arriving) continue;
    MPSNNFilterNode* forward = node_of(each);
    NSArray<MPSNNGradientFilterNode*>* made = [forward gradientFiltersWithSource:arriving];
    for (NSUInteger source = 0; source < made.count; ++source) {
      pass_on(each, source, made[source].resultImage, made[source]);
      if (handler) handler(made[source], forward, each->sources[source], arriving);
    }
  }
  return termini.count ? termini : nil;
}
@end
