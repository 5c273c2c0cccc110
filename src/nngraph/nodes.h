// Nodes of the legacy MPSNNGraph API: images, the filters between them, and gradient filters.
//
// The nodes themselves are the graph: a filter owns its source images and an image refers to the filter that produces
// it, so a result image keeps everything it depends on alive. Nodes compute nothing and know no sizes; NNGraph
// (graph.h) lowers them when it receives images. The kinds of filters are defined through definition.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/export.h"
#include "nngraph/data_source.h"
#include "nngraph/padding.h"

namespace mpsgraph::nngraph {

class FilterNode;
struct NodeDefinition;

// Storage format of an image; `none` means the graph's format.
enum class ChannelFormat { none, unorm8, unorm16, float16, float32 };
MPSGRAPH_API std::string_view name(ChannelFormat format);
// throws a GraphError that lists the valid names if `name` is unknown
MPSGRAPH_API ChannelFormat channel_format(std::string_view name);

// MPSNNImageNode: a batch of images in a graph. Without a producer it is an input, which the caller feeds.
class MPSGRAPH_API ImageNode {
 public:
  std::string handle;                  // name among the graph's inputs and exports; may be empty
  ChannelFormat format = ChannelFormat::none;
  bool export_from_graph = false;      // each encode returns this image among the intermediate images
  bool synchronize_resource = false;   // on Metal, whether the image is copied to memory that the CPU can read
  bool stop_gradient = false;          // training_graph() creates no gradient filters beyond this image
  FilterNode* producer = nullptr;      // the filter that produces and owns the image; null for an input

  static std::shared_ptr<ImageNode> input(std::string handle);
};
using ImagePtr = std::shared_ptr<ImageNode>;

// MPSNNStateNode: values that a filter keeps for its gradient filter, or a state that is fed with each batch.
class MPSGRAPH_API StateNode {
 public:
  std::string handle;                  // name among the states that encode takes or returns; may be empty
  bool export_from_graph = false;      // each encode returns this state among the destination states
  bool synchronize_resource = false;   // on Metal, whether the state is copied to memory that the CPU can read
  FilterNode* producer = nullptr;      // the filter that produces and owns the state; null for a fed state
};
using StateNodePtr = std::shared_ptr<StateNode>;

// MPSNNFilterNode: a filter over images, or its gradient filter.
class MPSGRAPH_API FilterNode : public std::enable_shared_from_this<FilterNode> {
 public:
  // Create a filter. `location` is the line of the user's program that creates it, such as "model.py:41". Throws
  // GraphError for an unknown kind, wrong attributes, or a wrong number of sources.
  static std::shared_ptr<FilterNode> create(std::string_view kind, std::vector<ImagePtr> sources, Attributes attributes,
                                            std::shared_ptr<DataSource> parameters = nullptr,
                                            std::string location = {});

  const NodeDefinition& definition() const { return *definition_; }
  std::string_view kind() const;
  const std::vector<ImagePtr>& sources() const { return sources_; }  // for a gradient filter: the incoming gradient
  const Attributes& attributes() const { return attributes_; }
  const std::shared_ptr<DataSource>& parameters() const { return parameters_; }
  // The image that this filter produces. Holding the image keeps the filter alive.
  ImagePtr result_image() { return ImagePtr(shared_from_this(), &result_); }
  const ImageNode& result() const { return result_; }
  // The state that this filter produces; null for gradient filters and for filters without a readable state.
  StateNodePtr result_state();
  const StateNode& state() const { return state_; }
  // The state of another filter that this filter reads. The state either belongs to another graph and is fed with each
  // batch, or is the source state of a transposed convolution, that is, the state of the convolution that it reverses.
  // Any other state causes a GraphError.
  const StateNodePtr& source_state() const { return source_state_; }
  void set_source_state(StateNodePtr state);

  // For a gradient filter: its forward filter, and the index of the source whose gradient it computes.
  const std::shared_ptr<FilterNode>& forward() const { return forward_; }
  size_t forward_source() const { return forward_source_; }
  bool is_gradient() const { return forward_ != nullptr; }

  // Return one gradient filter per source of this filter; `source` is the gradient of the result. Throws
  // UnsupportedError with the reason if this kind of filter has no gradient filter.
  std::vector<std::shared_ptr<FilterNode>> gradient_filters(const ImagePtr& source);
  // Return the only gradient filter of this filter. Throws GraphError if the filter has several sources, each with a
  // gradient filter; for such a filter, call gradient_filters().
  std::shared_ptr<FilterNode> gradient_filter(const ImagePtr& source);

  // Function that training_graph() calls for each new gradient filter. Its arguments are the gradient filter, its
  // forward filter, the source image of the forward filter whose gradient the gradient filter computes, and the
  // gradient filter's own first source image. It is also called for each addition that sums the gradients of an image
  // with several users; the first argument is then the addition, and the forward filter is null.
  using Handler = std::function<void(const std::shared_ptr<FilterNode>&, const std::shared_ptr<FilterNode>&,
                                     const ImagePtr&, const ImagePtr&)>;
  // Create gradient filters for this filter and all filters before it. Returns the last gradient filter of each path.
  // `source_gradient` is the gradient of this filter's result. If it is null, this filter's result image serves as the
  // initial gradient: the result of a loss is the gradient of the loss's source, and any other result is used as its
  // own gradient.
  std::vector<std::shared_ptr<FilterNode>> training_graph(const ImagePtr& source_gradient, const Handler& handler);

  std::string label;                            // shown in errors; the kind if empty
  PaddingPolicy padding;                        // padding policy for the windows of this filter
  std::string title() const;                    // "convolution 'conv1'" or "convolution gradient"
  const std::string& location() const { return location_; }
  // Text for error messages with the location of this filter, such as "; made at model.py:41"; "" if it is unknown.
  std::string where() const;

 private:
  FilterNode() { result_.producer = state_.producer = this; }
  const NodeDefinition* definition_ = nullptr;
  std::vector<ImagePtr> sources_;
  Attributes attributes_;
  std::shared_ptr<DataSource> parameters_;
  std::shared_ptr<FilterNode> forward_;
  size_t forward_source_ = 0;
  std::string location_;
  ImageNode result_;
  StateNode state_;
  StateNodePtr source_state_;
};
using FilterPtr = std::shared_ptr<FilterNode>;

}  // namespace mpsgraph::nngraph
