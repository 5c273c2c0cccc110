// Conversion of filters to Apple's nodes: the table of functions that create the nodes for each kind. Families are in
// nodes/<family>.mm.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/metal/nngraph/parameters.h"
#include "core/registration.h"
#include "nngraph/definition.h"

namespace mpsgraph::metal {

// The nodes that implement one filter: Apple's node, and neuron nodes around it for settings that Apple's node ignores
// inside a graph.
struct MadeFilter {
  std::vector<MPSCNNNeuronNode*> before;  // neuron nodes before each source; nil where not needed; may be empty
  MPSNNFilterNode* node = nil;
  struct Behind {
    MPSCNNNeuronNode* node;
    bool has_gradient;
  };
  std::vector<Behind> behind;
  MPSNNLabelsNode* labels = nil;  // the labels of a loss

  MPSNNImageNode* result() const { return (behind.empty() ? node : behind.back().node).resultImage; }
  // Create the gradient nodes for the incoming gradient. The last of them computes the gradient of source `i`.
  std::vector<MPSNNFilterNode*> gradient(MPSNNImageNode* incoming, size_t i) const;

 private:
  friend class Making;
  MPSNNFilterNode* (*main_gradient_)(const MadeFilter&, MPSNNImageNode*, size_t) = nullptr;
  MPSCNNLossDescriptor* loss_ = nil;
  NSArray<MPSNNImageNode*>* sources_ = nil;
};

// State of a filter while its nodes are created.
class Making {
 public:
  const nngraph::FilterNode& filter;
  const bool has_gradient;  // whether a gradient filter of this filter is in the graph
  NSArray<MPSNNImageNode*>* sources;
  const std::shared_ptr<LayerParameters> parameters;  // null if the filter has no parameters
  MadeFilter made;

  const Attributes& attributes() const { return filter.attributes(); }
  MPSNNImageNode* source() const { return sources[0]; }
  NSUInteger size(std::string_view attribute) const { return static_cast<NSUInteger>(attributes().integer(attribute)); }
  float number(std::string_view attribute) const { return static_cast<float>(attributes().real(attribute)); }
  // Apply a neuron node that computes a * x + b to source i.
  MPSNNImageNode* scaled(NSUInteger i, float a, float b);
  void add_behind(MPSNNNeuronDescriptor* neuron, bool has_gradient);
  // Use a loss gradient node, which Apple creates from images instead of from the forward node.
  void use_loss_gradient(MPSCNNLossDescriptor* descriptor);

  [[noreturn]] void unsupported(const std::string& why) const;
};

using Make = void (*)(Making&);
// Throw UnsupportedError for sizes that the node's definition allows but Apple's kernel does not support.
using Fits = void (*)(const nngraph::FilterNode& filter, std::span<const Dims> sources);
// Registers the makers of one file in nodes/; defined at the end of the file.
using NodeMakers = Registration<Making>;
void define_maker(std::string_view kind, Make make, Fits fits = nullptr);

struct Maker {
  Make make;
  Fits fits;
};
const Maker& find_maker(const nngraph::FilterNode& filter);  // throws UnsupportedError if the filter has no maker
[[noreturn]] void unsupported(const nngraph::FilterNode& filter, const std::string& why);

}  // namespace mpsgraph::metal
