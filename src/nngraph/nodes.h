// Nodes of the older interface: images, the filters between them, and the gradient filters of these.
//
// A graph is what its nodes say: a filter holds its source images, an image the filter that makes it, so that a result
// image keeps all that leads to it. Nothing is computed here and no size is known; NNGraph (graph.h) lowers nodes when
// it is given images. Which kinds of filter there are stands in definition.h.
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

// How an image's numbers are stored. None: as the graph says.
enum class ChannelFormat { none, unorm8, unorm16, float16, float32 };
MPSGRAPH_API std::string_view name(ChannelFormat format);
MPSGRAPH_API ChannelFormat channel_format(std::string_view name);  // GraphError that lists the names

// MPSNNImageNode: a place for a batch of images; fed when no filter makes it.
class MPSGRAPH_API ImageNode {
 public:
  std::string handle;                  // its name among the graph's inputs and exports; may be empty
  ChannelFormat format = ChannelFormat::none;
  bool export_from_graph = false;      // its images are among the intermediate images of each encode
  bool synchronize_resource = false;   // Metal: is copied to where the CPU reads it
  bool stop_gradient = false;          // training_graph() does not go past it
  FilterNode* producer = nullptr;      // the filter that makes it, which owns it; null for an input

  static std::shared_ptr<ImageNode> input(std::string handle);
};
using ImagePtr = std::shared_ptr<ImageNode>;

// MPSNNStateNode: what a filter leaves for its gradient filter; or a state that is given with each batch.
class MPSGRAPH_API StateNode {
 public:
  std::string handle;                  // its name among the states that encodes take or give; may be empty
  bool export_from_graph = false;      // its state is among the destination states of each encode
  bool synchronize_resource = false;   // Metal: is copied to where the CPU reads it
  FilterNode* producer = nullptr;      // the filter that leaves it, which owns it; null for one that is given
};
using StateNodePtr = std::shared_ptr<StateNode>;

// MPSNNFilterNode: a filter over images, or the gradient filter of one.
class MPSGRAPH_API FilterNode : public std::enable_shared_from_this<FilterNode> {
 public:
  // GraphError for an unknown kind, wrong attributes or a wrong number of sources; `location` is where the user's
  // program makes it, "model.py:41".
  static std::shared_ptr<FilterNode> create(std::string_view kind, std::vector<ImagePtr> sources, Attributes attributes,
                                            std::shared_ptr<DataSource> parameters = nullptr,
                                            std::string location = {});

  const NodeDefinition& definition() const { return *definition_; }
  std::string_view kind() const;
  const std::vector<ImagePtr>& sources() const { return sources_; }  // of a gradient filter: what comes in
  const Attributes& attributes() const { return attributes_; }
  const std::shared_ptr<DataSource>& parameters() const { return parameters_; }
  // The image that it makes. Holding it keeps the filter.
  ImagePtr result_image() { return ImagePtr(shared_from_this(), &result_); }
  const ImageNode& result() const { return result_; }
  // What it leaves; null for gradient filters, and where nothing is left that could be read.
  StateNodePtr result_state();
  const StateNode& state() const { return state_; }
  // A state that it reads: of another graph, given with each batch; or, of a transposed convolution, that of the
  // convolution whose size it undoes. GraphError for another one.
  const StateNodePtr& source_state() const { return source_state_; }
  void set_source_state(StateNodePtr state);

  // Of a gradient filter: the filter that it derives, and the source of that whose gradient it gives.
  const std::shared_ptr<FilterNode>& forward() const { return forward_; }
  size_t forward_source() const { return forward_source_; }
  bool is_gradient() const { return forward_ != nullptr; }

  // The gradient filters for what is `source` to each of this filter's images: one for each of its sources.
  // UnsupportedError where there is none, with the reason.
  std::vector<std::shared_ptr<FilterNode>> gradient_filters(const ImagePtr& source);
  // The first; GraphError for a filter that has several sources with gradients.
  std::shared_ptr<FilterNode> gradient_filter(const ImagePtr& source);

  // Called for each gradient filter as it is made: (gradient, forward, forward's source, gradient's source). Forward
  // is null for additions, which stand where an image has several users.
  using Handler = std::function<void(const std::shared_ptr<FilterNode>&, const std::shared_ptr<FilterNode>&,
                                     const ImagePtr&, const ImagePtr&)>;
  // Gradient filters for all filters before this one, from `source_gradient` (null: this filter's own result, as for
  // a loss). Gives the last of each path.
  std::vector<std::shared_ptr<FilterNode>> training_graph(const ImagePtr& source_gradient, const Handler& handler);

  std::string label;                            // in errors; empty: the kind
  PaddingPolicy padding;                        // of filters with windows
  std::string title() const;                    // "convolution 'conv1'" or "convolution gradient"
  const std::string& location() const { return location_; }
  std::string where() const;                    // "; made at model.py:41", or ""

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
