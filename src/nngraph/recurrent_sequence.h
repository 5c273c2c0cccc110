// A sequence of matrices as one array of a graph, and graphs that are compiled once for each form of a sequence.
//
// Where the matrices of all steps lie in memory as one array [T, N, channels] or [N, T, channels], that array is read
// and written in place; else an array of our own stands between, with a counted copy that runs with the command buffer.
// Rows may fall from step to step: what is missing is zeros then, which add nothing to a gradient.
#pragma once

#include <map>
#include <mutex>

#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/recurrent.h"

namespace mpsgraph::nngraph {

using FormKey = std::vector<int64_t>;  // what a compiled graph depends on, spelled out as numbers

// Steps are arrays [rows, channels]: of matrices, or of images whose pixels are the rows.
using Steps = std::vector<runtime::NDArray>;
// `offsets`: bytes for each matrix, or none.
MPSGRAPH_API Steps steps_of_matrices(const std::string& what, const std::vector<Matrix>& matrices,
                                     const std::vector<int64_t>& offsets);
// [N, H, W, C] as [N * H * W, C]; ShapeError when that would need a copy.
MPSGRAPH_API Steps steps_of_images(const std::string& what, const std::vector<runtime::NDArray>& images);

class StepSequence {
 public:
  StepSequence() = default;
  // Arrays [rows, channels]. `like`: a sequence of as many rows, or null. Errors name `what`.
  StepSequence(std::string what, Steps steps, int64_t channels, const StepSequence* like);

  bool given() const { return !steps_.empty(); }
  int64_t count() const { return static_cast<int64_t>(steps_.size()); }
  int64_t rows() const { return steps_.front().dims()[0]; }  // of the first step, the most
  int64_t last_rows() const { return steps_.back().dims()[0]; }
  int64_t rows_at(size_t step) const { return steps_[step].dims()[0]; }
  int64_t channels() const { return channels_; }
  DType dtype() const { return steps_.front().dtype(); }
  bool batch_first() const { return batch_first_; }
  Dims dims() const;  // of the array: [T, N, C] or [N, T, C]
  const std::string& what() const { return what_; }
  const Steps& steps() const { return steps_; }
  std::vector<const std::byte*> addresses() const;

  void append_to(FormKey& key) const;
  void require_apart(const StepSequence& other) const;  // DeviceError when they share elements
  void require_writable() const;
  runtime::NDArray as_input(std::vector<ArrayCopy>& before) const;
  runtime::NDArray as_result(std::vector<ArrayCopy>& after) const;

 private:
  void find_array();
  runtime::NDArray between() const;
  std::string what_;
  int64_t channels_ = 0;
  Steps steps_;
  runtime::NDArray array_;  // invalid when they are no array
  bool batch_first_ = false;
};

// A graph of a sequence while it is built: everything in it is float32, what goes in and out need not be.
class SequenceGraph {
 public:
  SequenceGraph() : graph_(std::make_shared<Graph>()), b(*graph_) {}
  Tensor* input(std::string_view name, DType dtype, const Dims& dims);
  Tensor* input(const StepSequence& sequence);  // [T, N, C]
  void result(Tensor* tensor, DType dtype);
  void result(Tensor* tensor, const StepSequence& sequence);
  std::shared_ptr<runtime::Executable> compile(runtime::Device& device);

 private:
  const std::shared_ptr<Graph> graph_;

 public:
  Builder b;

 private:
  std::vector<runtime::Feed> feeds_;
  std::vector<Tensor*> targets_;
};

// Executables by form; the one that was used longest ago goes when there are too many.
class MPSGRAPH_API SequenceForms {
 public:
  using Build = std::function<std::shared_ptr<runtime::Executable>()>;
  std::shared_ptr<runtime::Executable> get(const FormKey& key, const Build& build);
  size_t count() const;
  uint64_t compiled() const;

 private:
  struct Entry {
    std::shared_ptr<runtime::Executable> executable;
    uint64_t used;
  };
  mutable std::mutex mutex_;
  std::map<FormKey, Entry> entries_;
  uint64_t clock_ = 0, compiled_ = 0;
};

// One run of such an executable with what has to be copied around it.
struct SequenceRun {
  std::vector<runtime::NDArray> inputs, results;
  std::vector<ArrayCopy> before, after;

  void input(const StepSequence& sequence) { inputs.push_back(sequence.as_input(before)); }
  void input(const runtime::NDArray& array);  // any strides
  void result(const StepSequence& sequence) { results.push_back(sequence.as_result(after)); }
  void result(const runtime::NDArray& array, bool through_a_copy);  // any strides
  void result() { results.emplace_back(); }  // made by the run
  // All of its results. Encodes all or nothing.
  std::vector<runtime::NDArray> encode(runtime::CommandBuffer& buffer, runtime::Executable& executable,
                                       const std::string& label);
};

// The last or all steps' states of a layer that begin another sequence, or gradients of them: [rows, outputs] each. The
// cell is invalid where there is none.
struct LayerState {
  runtime::NDArray output, cell;
};
using RecurrentState = std::vector<LayerState>;  // of each layer of a stack

MPSGRAPH_API void require_open(std::string_view what, runtime::CommandBuffer& buffer, runtime::Device& device);
// UnsupportedError for devices that have no recurrent layers.
MPSGRAPH_API runtime::Device& require_layers(std::string_view what, runtime::Device& device);
// Checks the state of one layer against the rows and the cell; appends its form to the key.
void check_state(std::string_view what, const LayerState& state, const RecurrentDescriptor& d, int64_t rows,
                 FormKey& key);
void require_float(std::string_view what, DType dtype);  // float32 or float16
// Memory of the device for the states behind the last step, or behind each.
std::vector<RecurrentState> allocate_states(runtime::Device& device, const std::vector<RecurrentDescriptor>& layers,
                                            const StepSequence& sources, bool all);

}  // namespace mpsgraph::nngraph
