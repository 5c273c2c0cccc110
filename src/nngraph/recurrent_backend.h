// A device that runs recurrent layers and converters by classes of its own, as Metal does, and not as operations of a
// core graph. Whatever it is given has been checked, as on every device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nngraph/recurrent_inference.h"
#include "nngraph/recurrent_training.h"

namespace mpsgraph::nngraph {

// Steps are arrays [rows, channels] whose rows may stand apart.
struct DeviceForward {
  const Steps &sources, &destinations;
  const std::vector<Matrix>& weights;
  const LayerState& start;              // invalid: zeros
  const std::vector<LayerState>& ends;  // to be written, float32: none, of the last step, or of all
};
struct DeviceGradient {
  const Steps &forward_sources, &source_gradients, &destination_gradients;  // the last may be none
  const std::vector<Matrix>&weight_gradients, &weights;                     // the first may be none
  bool accumulates;
};

class DeviceTrainingLayer {
 public:
  virtual ~DeviceTrainingLayer() = default;
  // Number and layout of the matrices are the device's own affair.
  virtual const std::vector<MatrixDescriptor>& weight_matrices() const = 0;
  virtual const std::vector<MatrixDescriptor>& gradient_matrices(DType dtype) = 0;
  virtual std::vector<Matrix> initial_weights() = 0;
  virtual std::vector<Matrix> zeros(const std::vector<MatrixDescriptor>& descriptors) = 0;
  // These encode, and leave the command buffer as it was when they throw. What a forward sequence gives is for one
  // gradient sequence.
  virtual std::shared_ptr<DeviceTraining> encode_forward(runtime::CommandBuffer& buffer, const DeviceForward& s) = 0;
  virtual void encode_gradient(runtime::CommandBuffer& buffer, const DeviceGradient& s,
                               const std::shared_ptr<DeviceTraining>& training) = 0;
  // `window`: as large as the weights are.
  virtual void encode_copy_weights(runtime::CommandBuffer& buffer, const std::vector<Matrix>& weights, MatrixId id,
                                   const runtime::NDArray& window, bool from_weights) = 0;
};

struct DeviceStack {
  const Steps &sources, &destinations;
  const RecurrentState& start;              // of each layer
  const std::vector<RecurrentState>& ends;  // as of DeviceForward
};
struct DeviceDirections {
  const Steps &sources, &forward, &backward;  // the last may be none
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
  // `images`: steps are rows of pixels.
  std::unique_ptr<DeviceInferenceLayer> (*make_inference)(runtime::Device& device,
                                                          const std::vector<RecurrentDescriptor>& descriptors,
                                                          bool images);
  // `rows`: a row [H W C] of a matrix for each of the images [N, H, W, C].
  void (*encode_images_to_rows)(runtime::CommandBuffer& buffer, const runtime::NDArray& images,
                                const runtime::NDArray& rows, DataLayout layout);
  void (*encode_rows_to_images)(runtime::CommandBuffer& buffer, const runtime::NDArray& rows,
                                const runtime::NDArray& images, DataLayout layout);
};

// By the device's name. Registered when the backend is loaded.
MPSGRAPH_API void register_recurrent_backend(std::string device, RecurrentBackend backend);
const RecurrentBackend* find_recurrent_backend(std::string_view device);  // null: they run as a core graph

}  // namespace mpsgraph::nngraph
