// Filters of ours as nodes of Apple's: the table of how each kind is made. Families stand in nodes/<family>.mm.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/metal/nngraph/parameters.h"
#include "core/registration.h"
#include "nngraph/definition.h"

namespace mpsgraph::metal {

// What stands for one filter: a node, and neurons around it for what a node of Apple's does not do within a graph.
struct MadeFilter {
  std::vector<MPSCNNNeuronNode*> before;  // of each source; empty, or nil where there is none
  MPSNNFilterNode* node = nil;
  struct Behind {
    MPSCNNNeuronNode* node;
    bool has_gradient;
  };
  std::vector<Behind> behind;
  MPSNNLabelsNode* labels = nil;  // of a loss

  MPSNNImageNode* result() const { return (behind.empty() ? node : behind.back().node).resultImage; }
  // The gradient nodes for what comes in, the last of which gives the gradient of source `i`.
  std::vector<MPSNNFilterNode*> gradient(MPSNNImageNode* incoming, size_t i) const;

 private:
  friend class Making;
  MPSNNFilterNode* (*main_gradient_)(const MadeFilter&, MPSNNImageNode*, size_t) = nullptr;
  MPSCNNLossDescriptor* loss_ = nil;
  NSArray<MPSNNImageNode*>* sources_ = nil;
};

// A filter while it is made.
class Making {
 public:
  const nngraph::FilterNode& filter;
  const bool has_gradient;  // a gradient filter of it is in the graph
  NSArray<MPSNNImageNode*>* sources;
  const std::shared_ptr<LayerParameters> parameters;  // null: it has none
  MadeFilter made;

  const Attributes& attributes() const { return filter.attributes(); }
  MPSNNImageNode* source() const { return sources[0]; }
  NSUInteger size(std::string_view attribute) const { return static_cast<NSUInteger>(attributes().integer(attribute)); }
  float number(std::string_view attribute) const { return static_cast<float>(attributes().real(attribute)); }
  // The source behind a neuron a * x + b.
  MPSNNImageNode* scaled(NSUInteger i, float a, float b);
  void add_behind(MPSNNNeuronDescriptor* neuron, bool has_gradient);
  // Apple's loss gradient nodes are made of images, not by their forward node.
  void use_loss_gradient(MPSCNNLossDescriptor* descriptor);

  [[noreturn]] void unsupported(const std::string& why) const;
};

using Make = void (*)(Making&);
// Refuses sizes that the device's kernel does not take, which nngraph's meaning does.
using Fits = void (*)(const nngraph::FilterNode& filter, std::span<const Dims> sources);
// What a file of nodes/ brings; it stands at the file's end.
using NodeMakers = Registration<Making>;
void define_maker(std::string_view kind, Make make, Fits fits = nullptr);

struct Maker {
  Make make;
  Fits fits;
};
const Maker& find_maker(const nngraph::FilterNode& filter);  // UnsupportedError when there is none
[[noreturn]] void unsupported(const nngraph::FilterNode& filter, const std::string& why);

}  // namespace mpsgraph::metal
