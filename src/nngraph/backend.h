// Interface of a device that runs MPSNNGraph nodes with native classes, as Metal does, instead of as operations of a
// core graph.
//
// The nodes are lowered to a core graph even for such a device: the lowering infers the size of every image and rejects
// invalid graphs before the device sees them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nngraph/graph.h"
#include "nngraph/layer.h"

namespace mpsgraph::nngraph {

// The arguments of one encode call, already validated.
struct NodeBatch {
  const std::shared_ptr<runtime::CommandBuffer>& buffer;
  const std::vector<ImageBatch>& sources;
  const std::vector<LabelsBatch>& labels;
  const std::map<const ImageNode*, Dims>& shapes;  // shapes of all images
};

// The native objects that run the nodes of one graph on a device. NNGraph encodes its batches through this interface.
class DeviceNodes {
 public:
  virtual ~DeviceNodes() = default;
  // Encode a batch and append the work to the command buffer. If this throws, the graph and the command buffer are
  // unchanged. `losses` receives one array per loss.
  virtual EncodeResults encode_batch(const NodeBatch& batch, std::vector<runtime::NDArray>& losses) = 0;
  // Replace the parameters of all layers. `arrays` holds, for each layer of the graph, the result of Layer::reloaded().
  virtual void reload(const std::vector<std::vector<NamedArray>>& arrays) = 0;
  // Block until the batch that was submitted last has written the parameters of all layers.
  virtual void wait_for_values() = 0;
};

// Arrays of one optimizer step for one parameter. All are float32 and have the same shape.
struct OptimizerStep {
  runtime::NDArray gradient, values;
  std::vector<runtime::NDArray> moments;  // moments of the optimizer, which the step reads and writes
  runtime::NDArray result;  // array that receives the new values; may be the same array as `values`
};

struct NodeBackend {
  std::unique_ptr<DeviceNodes> (*make_nodes)(const NNGraph& graph);
  // Append the step to the buffer. If a batch of nodes is being encoded and a data source updates itself, the step
  // becomes part of that batch.
  void (*encode_step)(const Optimizer& optimizer, runtime::CommandBuffer& buffer, const OptimizerStep& step);
};

// A node backend is registered under the name of its device when that device's backend is loaded.
MPSGRAPH_API void register_node_backend(std::string device, NodeBackend backend);
// Return null if the device does not run nodes natively; NNGraph then runs them as a core graph.
MPSGRAPH_API const NodeBackend* find_node_backend(std::string_view device);

}  // namespace mpsgraph::nngraph
