// Training of one recurrent layer: forward pass and gradients over a sequence, with weights that the caller owns.
#pragma once

#include <atomic>

#include "nngraph/recurrent_sequence.h"

namespace mpsgraph::nngraph {

class DeviceTrainingLayer;
// Base class of the data that a native forward pass stores for its gradient pass.
class DeviceTraining {
 public:
  virtual ~DeviceTraining() = default;
};

// The data that a forward pass over a sequence stores for its gradient pass. At most one gradient pass can use the
// data.
struct TrainingRecord {
  uint64_t layer = 0;                          // number that identifies the layer
  std::vector<const std::byte*> sources;     // address of the input of each step
  std::vector<int64_t> rows;
  LayerState start;
  // arrays of shape [T, N, ...]; invalid if the gradient pass recomputes them
  runtime::NDArray states, cells, gates;
  std::shared_ptr<DeviceTraining> device;    // a native device stores this instead of the three arrays
  std::atomic<bool> used{false};
};

// A caller's handle of the training state of one time step.
struct TrainingState {
  std::shared_ptr<TrainingRecord> record;
  size_t step = 0;
};

struct ForwardSequence {
  std::vector<Matrix> sources, destinations, weights;
  std::vector<int64_t> source_offsets, destination_offsets;  // offset of each matrix in bytes; empty means zeros
  std::optional<LayerState> input_state;     // state before the first step; nullopt means zeros
  // Whether to return states: the last one, or all of them if the layer stores intermediate states.
  bool gives_states = false;
};
struct ForwardResult {
  std::vector<TrainingState> training_states;  // training states, one per step
  std::vector<LayerState> states;
};

struct GradientSequence {
  std::vector<Matrix> forward_sources, source_gradients, destination_gradients, weight_gradients, weights;
  std::vector<int64_t> forward_source_offsets, source_gradient_offsets, destination_gradient_offsets;
  bool gives_destinations = false, gives_weights = false, gives_states = false;
  std::optional<LayerState> input_state;     // gradient of the state after the last step
  std::vector<TrainingState> training_states;  // the training states that the forward sequence returned
};

class MPSGRAPH_API RecurrentTrainingLayer {
 public:
  RecurrentTrainingLayer(runtime::Device& device, RecurrentDescriptor descriptor);
  ~RecurrentTrainingLayer();

  const RecurrentDescriptor& descriptor() const { return descriptor_; }
  std::vector<Matrix> initial_weights() const;
  std::vector<Matrix> zero_weights() const;
  std::vector<Matrix> zero_gradients(DType dtype) const;  // throws DTypeError unless `dtype` is float32 or float16
  size_t form_count() const { return forms_.count(); }
  uint64_t compiled() const { return forms_.compiled(); }

  bool store_all_intermediate_states = false, accumulate_weight_gradients = false;

  // The encode functions append work that runs with the command buffer. If an encode function throws, the command
  // buffer and all arguments are unchanged.
  ForwardResult encode_forward(runtime::CommandBuffer& buffer, const ForwardSequence& sequence);
  // Return the gradient of the state from which the sequence started, if requested.
  std::optional<LayerState> encode_gradient(runtime::CommandBuffer& buffer, const GradientSequence& sequence);
  void encode_copy_weights(runtime::CommandBuffer& buffer, const std::vector<Matrix>& weights, MatrixId id,
                           const Matrix& matrix, bool from_weights, const MatrixOrigin& origin);

 private:
  enum class WeightRole { weights, gradients, either };
  void check_weights(std::string_view what, const std::vector<Matrix>& weights, WeightRole role, FormKey* key) const;
  std::vector<MatrixDescriptor> matrices_of(WeightRole role, DType dtype) const;
  TrainingRecord& record_of(const GradientSequence& sequence, const StepSequence& sources) const;
  std::vector<Tensor*> weight_inputs(SequenceGraph& graph, const std::vector<Matrix>& weights) const;

  runtime::Device& device_;
  const uint64_t number_;  // number of the layer, unique within the process
  const RecurrentDescriptor descriptor_;
  const WeightLayout layout_;
  const std::unique_ptr<DeviceTrainingLayer> on_device_;  // null if the layer runs as a core graph
  SequenceForms forms_;
};

}  // namespace mpsgraph::nngraph
