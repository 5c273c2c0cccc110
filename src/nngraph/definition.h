// NodeDefinition: everything that is known of one kind of filter, and their table.
//
// Each family states its kinds in src/nngraph/nodes/<family>.cpp: attributes, what the filter means as operations of a
// core graph, and where Apple's gradient is not that meaning's derivative, the gradient too. docs/nngraph.md is made of
// this table.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "nngraph/layer.h"
#include "nngraph/nodes.h"

namespace mpsgraph::nngraph {

// What a filter's meaning may look at while it is lowered. Images are NHWC, float32 whatever they are stored as.
class Lowering {
 public:
  Lowering(Builder& b, const FilterNode& node) : b(b), node(node) {}
  Builder& b;
  const FilterNode& node;
  std::vector<Tensor*> sources;
  std::map<std::string, Tensor*, std::less<>> parameters;  // of the data source, as arrays() names them
  const Layer* layer = nullptr;  // what it knows of that source
  bool training = false;  // its gradient filter is in the graph
  const Lowering* undone = nullptr;  // of a transposed convolution that is given one: the convolution
  // What the forward filter leaves for its gradient filter, and what the graph is to give out besides.
  std::map<std::string, Tensor*, std::less<>> state;

  const Attributes& attributes() const { return node.attributes(); }
  Tensor* parameter(std::string_view name) const;  // null when the source has none of that name
  // Sizes of an image; they are known.
  int64_t batch(size_t i = 0) const { return sources[i]->shape()[0]; }
  int64_t height(size_t i = 0) const { return sources[i]->shape()[1]; }
  int64_t width(size_t i = 0) const { return sources[i]->shape()[2]; }
  int64_t channels(size_t i = 0) const { return sources[i]->shape()[3]; }
  Tensor* add(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes = {}) const {
    return b.graph().add(kind, std::move(inputs), std::move(attributes));
  }

  // A state that is fed with each batch: labels and weights of a loss. [N, height, width, channels] float32; its size
  // is what came.
  std::function<Tensor*(std::string_view name)> fed;  // null tensor: that one did not come
  std::function<Tensor*()> seed;  // of random numbers: another one for each batch, int32 scalar

  [[noreturn]] void shape_error(const std::string& message) const;  // with the node's title and where it was made
  [[noreturn]] void graph_error(const std::string& message) const;
};

struct NodeDefinition {
  std::string_view name;  // "convolution": MPSCNNConvolutionNode
  std::string_view family = {};  // set by define_node()
  std::string_view apple = {};  // "MPSCNNConvolutionNode"
  std::string_view first_macos = {};  // of that class
  std::string_view apple_gradient = {};  // "MPSCNNConvolutionGradientNode"; empty: none, and `without` says why
  std::string_view without = {};  // why there is no gradient filter
  int min_sources = 1, max_sources = 1;  // -1: any number
  std::vector<AttributeSpec> attributes = {};
  std::optional<DataSource::Kind> parameters = {};  // what its data source must be
  std::vector<std::string_view> states = {};  // fed states by name: a loss's "labels" and "weights", or a "mask"
  bool takes_labels() const { return !states.empty() && states[0] == "labels"; }
  std::string_view undoes = {};  // the kind whose state says how large its result is, where that is given
  std::vector<std::string_view> left = {};  // of Lowering::state, what a graph may give out: a dropout's "mask"
  bool leaves_state() const { return parameters || !left.empty(); }  // or the gradients of its parameters
  bool result_is_gradient = false;  // a loss: training_graph() begins with its result
  bool windows = false;  // has a padding policy
  std::string_view padding = "same";  // and its default
  bool random = false;
  bool matrix = false;  // multiplies by its weights as a matrix (inputs, outputs)

  std::function<Tensor*(Lowering&)> lower = {};
  // The gradient of source `i` for what comes in; empty: that of what `lower` made, which is exact.
  std::function<Tensor*(Lowering&, Tensor* incoming, size_t i)> gradient = {};
  std::function<void(const FilterNode&)> check = {};  // what can be said without sizes
};

MPSGRAPH_API const NodeDefinition& node_definition(std::string_view name);  // GraphError with the names
MPSGRAPH_API std::vector<const NodeDefinition*> all_node_definitions();  // family by family

// What a file of src/nngraph/nodes/ states; it stands at the file's end.
using NodeFamily = Registration<NodeDefinition>;
void define_node(NodeDefinition definition);

}  // namespace mpsgraph::nngraph
