// NodeDefinition describes one kind of filter; this header also declares the table of all kinds.
//
// Each family defines its filters in src/nngraph/nodes/<family>.cpp: their attributes, how they are lowered to
// operations of a core graph, and, where Apple's gradient differs from the derivative of that lowering, the gradient.
// docs/nngraph.md is generated from this table.
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

// Passed to a filter's lowering function: the filter's inputs, and helpers that build operations. Images are NHWC and
// float32, whatever their storage format.
class Lowering {
 public:
  Lowering(Builder& b, const FilterNode& node) : b(b), node(node) {}
  Builder& b;
  const FilterNode& node;
  std::vector<Tensor*> sources;
  std::map<std::string, Tensor*, std::less<>> parameters;  // keyed by the names in DataSource::arrays()
  const Layer* layer = nullptr;  // descriptor and slots of the data source
  bool training = false;  // whether the gradient filter is in the graph
  // For a transposed convolution that has a source state: the lowering of the convolution that it reverses, i.e. the
  // convolution whose state it reads. Null for all other filters.
  const Lowering* undone = nullptr;
  // Values, by name, that a forward filter keeps for its gradient filter or that the graph exports as a state.
  std::map<std::string, Tensor*, std::less<>> state;

  const Attributes& attributes() const { return node.attributes(); }
  Tensor* parameter(std::string_view name) const;  // null if the source has no parameter of that name
  // Static sizes of a source image.
  int64_t batch(size_t i = 0) const { return sources[i]->shape()[0]; }
  int64_t height(size_t i = 0) const { return sources[i]->shape()[1]; }
  int64_t width(size_t i = 0) const { return sources[i]->shape()[2]; }
  int64_t channels(size_t i = 0) const { return sources[i]->shape()[3]; }
  Tensor* add(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}) const {
    return b.graph().add(kind, std::move(inputs), std::move(attributes));
  }

  // Return a state that the caller passes with each batch, such as the labels and weights of a loss: float32 of shape
  // [N, height, width, channels].
  std::function<Tensor*(std::string_view name)> fed;  // returns null if that state was not passed
  std::function<Tensor*()> seed;  // random seed as an int32 scalar, different for each batch

  // message includes the node's title and source location
  [[noreturn]] void shape_error(const std::string& message) const;
  [[noreturn]] void graph_error(const std::string& message) const;
};

struct NodeDefinition {
  std::string_view name;  // name of the kind of filter, e.g. "convolution"
  std::string_view family = {};  // family of the filter; set by define_node()
  std::string_view apple = {};  // Apple's class, e.g. "MPSCNNConvolutionNode"
  std::string_view first_macos = {};  // first macOS version with Apple's class
  // Name of Apple's gradient node, e.g. "MPSCNNConvolutionGradientNode". Empty if Apple has no such node; `without`
  // then gives the reason.
  std::string_view apple_gradient = {};
  std::string_view without = {};  // why there is no gradient filter
  int min_sources = 1, max_sources = 1;  // number of source images; max_sources is -1 if any number is allowed
  std::vector<AttributeSpec> attributes = {};
  std::optional<DataSource::Kind> parameters = {};  // required kind of data source
  std::vector<std::string_view> states = {};  // states fed by name: a loss's "labels" and "weights", or a "mask"
  bool takes_labels() const { return !states.empty() && states[0] == "labels"; }
  std::string_view undoes = {};  // kind of filter whose state, if given, determines the result's size
  // Names of the entries of Lowering::state that a graph can export, e.g. a dropout's "mask".
  std::vector<std::string_view> left = {};
  // Whether a graph can export a state of this filter. The state contains the entries listed in `left`, or the
  // gradients of the filter's parameters.
  bool leaves_state() const { return parameters || !left.empty(); }
  bool result_is_gradient = false;  // true for a loss, whose result is the gradient at which training_graph() starts
  bool windows = false;  // whether the filter has windows, and therefore a padding policy
  std::string_view padding = "same";  // default padding policy
  bool random = false;
  bool matrix = false;  // whether the filter is a matmul with weights of shape (inputs, outputs)

  std::function<Tensor*(Lowering&)> lower = {};
  // Gradient with respect to source `i` for the incoming gradient. If empty, the exact derivative of the lowered filter
  // is used.
  std::function<Tensor*(Lowering&, Tensor* incoming, size_t i)> gradient = {};
  std::function<void(const FilterNode&)> check = {};  // checks the attributes that can be checked without sizes
};

// throws a GraphError that lists the known names if `name` is unknown
MPSGRAPH_API const NodeDefinition& node_definition(std::string_view name);
MPSGRAPH_API std::vector<const NodeDefinition*> all_node_definitions();  // all definitions, grouped by family

// Registers a family of filters; defined at the end of each file in src/nngraph/nodes/.
using NodeFamily = Registration<NodeDefinition>;
void define_node(NodeDefinition definition);

}  // namespace mpsgraph::nngraph
