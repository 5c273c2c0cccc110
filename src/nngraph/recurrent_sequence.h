// Represents a sequence of matrices as one array of a graph. Graphs are compiled once per form: the sizes, dtypes, and
// layouts of a sequence and the requested results.
//
// If the matrices of all steps together form an array [T, N, channels] or [N, T, channels] in memory, that array is
// read and written in place. Otherwise the data is copied to or from a temporary array when the command buffer runs,
// and the copies are counted. The number of rows may decrease from step to step; missing rows are zeros, which
// contribute nothing to gradients.
#pragma once

#include <map>
#include <mutex>

#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/recurrent.h"

namespace mpsgraph::nngraph {

using FormKey = std::vector<int64_t>;  // a form, i.e. everything that a compiled graph depends on, encoded as numbers

// Steps of a sequence. Each is an array [rows, channels]: a matrix, or images whose pixels are the rows.
using Steps = std::vector<runtime::NDArray>;
// `offsets`: byte offset of each matrix, or empty.
MPSGRAPH_API Steps steps_of_matrices(const std::string& what, const std::vector<Matrix>& matrices,
                                     const std::vector<int64_t>& offsets);
// Reshape images [N, H, W, C] to [N * H * W, C]; ShapeError if that would need a copy.
MPSGRAPH_API Steps steps_of_images(const std::string& what, const std::vector<runtime::NDArray>& images);

class StepSequence {
 public:
  StepSequence() = default;
  // If `like` is not null, each step must have as many rows as the same step of `like`. Error messages start with
  // `what`.
  StepSequence(std::string what, Steps steps, int64_t channels, const StepSequence* like);

  bool given() const { return !steps_.empty(); }
  int64_t count() const { return static_cast<int64_t>(steps_.size()); }
  // number of rows of the first step, which has the most rows
  int64_t rows() const { return steps_.front().dims()[0]; }
  int64_t last_rows() const { return steps_.back().dims()[0]; }
  int64_t rows_at(size_t step) const { return steps_[step].dims()[0]; }
  int64_t channels() const { return channels_; }
  DType dtype() const { return steps_.front().dtype(); }
  bool batch_first() const { return batch_first_; }
  Dims dims() const;  // dimensions of the array: [T, N, C] or [N, T, C]
  const std::string& what() const { return what_; }
  const Steps& steps() const { return steps_; }
  std::vector<const std::byte*> addresses() const;

  void append_to(FormKey& key) const;
  void require_apart(const StepSequence& other) const;  // throws DeviceError if the sequences share elements
  void require_writable() const;
  runtime::NDArray as_input(std::vector<ArrayCopy>& before) const;
  runtime::NDArray as_result(std::vector<ArrayCopy>& after) const;

 private:
  void find_array();
  runtime::NDArray between() const;
  std::string what_;
  int64_t channels_ = 0;
  Steps steps_;
  runtime::NDArray array_;  // invalid if the steps do not form one array
  bool batch_first_ = false;
};

// Builder for the graph of a sequence. All computation is in float32; inputs and results may have other dtypes.
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

// A cache of executables, keyed by the form of a sequence (its sizes, dtypes, and layouts, and the requested results).
// It evicts the least recently used executable.
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

// One run of a sequence executable, with the copies needed before and after it.
struct SequenceRun {
  std::vector<runtime::NDArray> inputs, results;
  std::vector<ArrayCopy> before, after;

  void input(const StepSequence& sequence) { inputs.push_back(sequence.as_input(before)); }
  void input(const runtime::NDArray& array);  // `array` may have any strides
  void result(const StepSequence& sequence) { results.push_back(sequence.as_result(after)); }
  void result(const runtime::NDArray& array, bool through_a_copy);  // `array` may have any strides
  void result() { results.emplace_back(); }  // adds a result that the run allocates
  // Encode the run and its copies, and return all results. If this throws, nothing has been encoded.
  std::vector<runtime::NDArray> encode(runtime::CommandBuffer& buffer, runtime::Executable& executable,
                                       const std::string& label);
};

// The state of a layer after a step, from which another sequence can start, or the gradient of such a state. Arrays
// have shape [rows, outputs]; `cell` is invalid for layers without memory cells.
struct LayerState {
  runtime::NDArray output, cell;
};
using RecurrentState = std::vector<LayerState>;  // one entry per layer of a stack

MPSGRAPH_API void require_open(std::string_view what, runtime::CommandBuffer& buffer, runtime::Device& device);
// Throws UnsupportedError for devices that cannot run recurrent layers.
MPSGRAPH_API runtime::Device& require_layers(std::string_view what, runtime::Device& device);
// Check that a layer's state has this number of rows, and no memory cell unless the layer is an LSTM. Add the dtypes of
// its arrays to the cache key.
void check_state(std::string_view what, const LayerState& state, const RecurrentDescriptor& d, int64_t rows,
                 FormKey& key);
void require_float(std::string_view what, DType dtype);  // throws DTypeError unless `dtype` is float32 or float16
// Allocate device memory for the states after the last step, or after every step if `all` is set.
std::vector<RecurrentState> allocate_states(runtime::Device& device, const std::vector<RecurrentDescriptor>& layers,
                                            const StepSequence& sources, bool all);

}  // namespace mpsgraph::nngraph
