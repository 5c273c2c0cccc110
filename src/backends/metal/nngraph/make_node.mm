// The table of makers and the functions that all makers share.
#include "backends/metal/nngraph/make_node.h"

#include <map>
#include <mutex>

#include "backends/metal/nngraph/neurons.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {
namespace {

std::map<std::string_view, Maker>& table() {
  static std::map<std::string_view, Maker> makers;
  return makers;
}

MPSNNFilterNode* by_forward_node(const MadeFilter& made, MPSNNImageNode* incoming, size_t i) {
  return [made.node gradientFiltersWithSource:incoming][i];
}

}  // namespace

void define_maker(std::string_view kind, Make make, Fits fits) { table()[kind] = {make, fits}; }

const Maker& find_maker(const nngraph::FilterNode& filter) {
  static std::once_flag once;
  std::call_once(once, [] { NodeMakers::for_each([](std::string_view, NodeMakers::Say define) { define(); }); });
  const auto found = table().find(filter.kind());
  if (found == table().end()) unsupported(filter, "Apple has no corresponding node class; use device=\"cpu\"");
  return found->second;
}

void unsupported(const nngraph::FilterNode& filter, const std::string& why) {
  throw UnsupportedError(cat("[", filter.title(), "] on the Metal device: ", why, filter.where()));
}

void Making::unsupported(const std::string& why) const { metal::unsupported(filter, why); }

MPSNNImageNode* Making::scaled(NSUInteger i, float a, float b) {
  MPSCNNNeuronNode* node = [MPSCNNNeuronNode nodeWithSource:sources[i]
                                                 descriptor:neuron_descriptor("linear", a, b, 0, nullptr)];
  made.before.resize(sources.count);
  made.before[i] = node;
  return node.resultImage;
}

void Making::add_behind(MPSNNNeuronDescriptor* neuron, bool has_gradient) {
  made.behind.push_back({[MPSCNNNeuronNode nodeWithSource:made.result() descriptor:neuron], has_gradient});
}

void Making::use_loss_gradient(MPSCNNLossDescriptor* descriptor) {
  made.loss_ = descriptor;
  made.sources_ = sources;
  made.main_gradient_ = [](const MadeFilter& m, MPSNNImageNode* incoming, size_t i) -> MPSNNFilterNode* {
    NSArray<MPSNNImageNode*>* all = [@[ incoming ] arrayByAddingObjectsFromArray:m.sources_];
    return [MPSNNLossGradientNode nodeWithSources:all
                                    gradientState:(MPSNNGradientStateNode*)m.node.resultState
                                   lossDescriptor:m.loss_
                           isLabelsGradientFilter:i == 1];
  };
}

std::vector<MPSNNFilterNode*> MadeFilter::gradient(MPSNNImageNode* incoming, size_t i) const {
  std::vector<MPSNNFilterNode*> nodes;
  const auto add = [&](MPSNNFilterNode* node) {
    nodes.push_back(node);
    incoming = node.resultImage;
  };
  for (size_t k = behind.size(); k-- > 0;)
    if (behind[k].has_gradient) add([behind[k].node gradientFilterWithSource:incoming]);
  add((main_gradient_ ? main_gradient_ : by_forward_node)(*this, incoming, i));
  if (i < before.size() && before[i]) add([before[i] gradientFilterWithSource:incoming]);
  return nodes;
}

}  // namespace mpsgraph::metal
