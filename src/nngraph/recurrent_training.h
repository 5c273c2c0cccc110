// Training of one recurrent layer: forward and gradients over a sequence, with weights that the caller owns.
#pragma once

#include <atomic>

#include "nngraph/recurrent_sequence.h"

namespace mpsgraph::nngraph {

class DeviceTrainingLayer;
// What a forward pass leaves on a device that runs layers by itself.
class DeviceTraining {
 public:
  virtual ~DeviceTraining() = default;
};

// What a forward pass over a sequence leaves for its gradients; they use it up.
struct TrainingRecord {
  uint64_t layer = 0;                          // the number of the layer
  std::vector<const std::byte*> sources;     // where the steps' inputs were
  std::vector<int64_t> rows;
  LayerState start;
  runtime::NDArray states, cells, gates;     // [T, N, ...]; invalid where the gradients compute them again
  std::shared_ptr<DeviceTraining> device;    // instead of these
  std::atomic<bool> used{false};
};

// A step's share of it, as callers hold them.
struct TrainingState {
  std::shared_ptr<TrainingRecord> record;
  size_t step = 0;
};

struct ForwardSequence {
  std::vector<Matrix> sources, destinations, weights;
  std::vector<int64_t> source_offsets, destination_offsets;  // bytes; none for zeros
  std::optional<LayerState> input_state;     // none: zeros
  bool gives_states = false;                 // the last, or all when the layer stores all
};
struct ForwardResult {
  std::vector<TrainingState> training_states;  // one for each step
  std::vector<LayerState> states;
};

struct GradientSequence {
  std::vector<Matrix> forward_sources, source_gradients, destination_gradients, weight_gradients, weights;
  std::vector<int64_t> forward_source_offsets, source_gradient_offsets, destination_gradient_offsets;
  bool gives_destinations = false, gives_weights = false, gives_states = false;
  std::optional<LayerState> input_state;     // the gradient of the last state
  std::vector<TrainingState> training_states;  // as the forward sequence gave them
};

class MPSGRAPH_API RecurrentTrainingLayer {
 public:
  RecurrentTrainingLayer(runtime::Device& device, RecurrentDescriptor descriptor);
  ~RecurrentTrainingLayer();

  const RecurrentDescriptor& descriptor() const { return descriptor_; }
  std::vector<Matrix> initial_weights() const;
  std::vector<Matrix> zero_weights() const;
  std::vector<Matrix> zero_gradients(DType dtype) const;  // DTypeError
  size_t form_count() const { return forms_.count(); }
  uint64_t compiled() const { return forms_.compiled(); }

  bool store_all_intermediate_states = false, accumulate_weight_gradients = false;

  // Nothing runs before the command buffer does. An error leaves the command buffer and all arguments as they were.
  ForwardResult encode_forward(runtime::CommandBuffer& buffer, const ForwardSequence& sequence);
  // The gradient of the state that the sequence began with, when it is asked for.
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
  const uint64_t number_;  // in this process
  const RecurrentDescriptor descriptor_;
  const WeightLayout layout_;
  const std::unique_ptr<DeviceTrainingLayer> on_device_;  // null: it runs as a core graph
  SequenceForms forms_;
};

}  // namespace mpsgraph::nngraph
