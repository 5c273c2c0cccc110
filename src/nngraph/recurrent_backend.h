// Interface of a device that runs recurrent layers and converters with native classes, as Metal does, instead of as
// operations of a core graph. All arguments have been validated, as on every device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nngraph/recurrent_inference.h"
#include "nngraph/recurrent_training.h"

namespace mpsgraph::nngraph {

// Arguments of a native forward pass. Each step is an array [rows, channels] whose rows may be padded.
struct DeviceForward {
  const Steps &sources, &destinations;
  const std::vector<Matrix>& weights;
  const LayerState& start;              // initial state; an invalid state means zeros
  const std::vector<LayerState>& ends;  // float32 states to write: none, those of the last step, or those of all steps
};
struct DeviceGradient {
  const Steps &forward_sources, &source_gradients, &destination_gradients;  // `destination_gradients` may be empty
  const std::vector<Matrix>&weight_gradients, &weights;  // `weight_gradients` may be empty
  bool accumulates;
};

class DeviceTrainingLayer {
 public:
  virtual ~DeviceTrainingLayer() = default;
  // The matrices that store weights and gradients. Each device chooses their number and layout.
  virtual const std::vector<MatrixDescriptor>& weight_matrices() const = 0;
  virtual const std::vector<MatrixDescriptor>& gradient_matrices(DType dtype) = 0;
  virtual std::vector<Matrix> initial_weights() = 0;
  virtual std::vector<Matrix> zeros(const std::vector<MatrixDescriptor>& descriptors) = 0;
  // The encode functions leave the command buffer unchanged if they throw. The result of encode_forward can be passed
  // to encode_gradient at most once.
  virtual std::shared_ptr<DeviceTraining> encode_forward(runtime::CommandBuffer& buffer, const DeviceForward& s) = 0;
  virtual void encode_gradient(runtime::CommandBuffer& buffer, const DeviceGradient& s,
                               const std::shared_ptr<DeviceTraining>& training) = 0;
  // Copy one weight array, identified by `id`, between the layer's weights and `window`, a part of the caller's matrix
  // that has the same shape.
  virtual void encode_copy_weights(runtime::CommandBuffer& buffer, const std::vector<Matrix>& weights, MatrixId id,
                                   const runtime::NDArray& window, bool from_weights) = 0;
};

struct DeviceStack {
  const Steps &sources, &destinations;
  const RecurrentState& start;  // initial state, with one entry per layer
  const std::vector<RecurrentState>& ends;  // states to write, as in DeviceForward
};
struct DeviceDirections {
  const Steps &sources, &forward, &backward;  // `backward` may be empty
  BidirectionalCombineMode mode;
};

class DeviceInferenceLayer {
 public:
  virtual ~DeviceInferenceLayer() = default;
  virtual void encode_sequence(runtime::CommandBuffer& buffer, const DeviceStack& s) = 0;
  virtual void encode_bidirectional_sequence(runtime::CommandBuffer& buffer, const DeviceDirections& s) = 0;
};

struct RecurrentBackend {
  std::unique_ptr<DeviceTrainingLayer> (*make_training)(runtime::Device& device, const RecurrentDescriptor& descriptor);
  // Create an inference layer. `images` states whether the steps are images; the pixels are then the rows.
  std::unique_ptr<DeviceInferenceLayer> (*make_inference)(runtime::Device& device,
                                                          const std::vector<RecurrentDescriptor>& descriptors,
                                                          bool images);
  // Copy images [N, H, W, C] to or from `rows`, a matrix with one row of H W C elements per image.
  void (*encode_images_to_rows)(runtime::CommandBuffer& buffer, const runtime::NDArray& images,
                                const runtime::NDArray& rows, DataLayout layout);
  void (*encode_rows_to_images)(runtime::CommandBuffer& buffer, const runtime::NDArray& rows,
                                const runtime::NDArray& images, DataLayout layout);
};

// A recurrent backend is registered under the name of its device when that device's backend is loaded.
MPSGRAPH_API void register_recurrent_backend(std::string device, RecurrentBackend backend);
// Returns null if the device runs layers as a core graph.
const RecurrentBackend* find_recurrent_backend(std::string_view device);

}  // namespace mpsgraph::nngraph
