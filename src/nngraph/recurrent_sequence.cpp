// Converts sequences of steps to arrays, and builds and runs the graphs that process them.
#include "nngraph/recurrent_sequence.h"

#include <algorithm>
#include <cstring>

#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/recurrent_backend.h"
#include "runtime/backend.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

void require_float(std::string_view what, DType dtype) {
  if (dtype != DType::float32 && dtype != DType::float16)
    throw DTypeError(cat("[", what, "] must be float32 or float16, got ", dtype));
}

// --- steps -----------------------------------------------------------------------------------------------------------

Steps steps_of_matrices(const std::string& what, const std::vector<Matrix>& matrices,
                        const std::vector<int64_t>& offsets) {
  if (!offsets.empty() && offsets.size() != matrices.size())
    throw ShapeError(
        cat("[", what, "] expected one offset per matrix (", matrices.size(), ") or none, got ", offsets.size()));
  Steps steps;
  for (size_t t = 0; t < matrices.size(); ++t)
    steps.push_back(matrices[t].at(0, offsets.empty() ? 0 : offsets[t], cat(what, " of step ", t)));
  return steps;
}

Steps steps_of_images(const std::string& what, const std::vector<NDArray>& images) {
  Steps steps;
  for (const NDArray& image : images) {
    if (image.dims().size() != 4)
      throw ShapeError(cat("[", what, "] step ", steps.size(), " must be images of shape [N, H, W, C], got shape ",
                           to_string(image.dims())));
    if (!image.contiguous())
      throw ShapeError(cat("[", what, "] the images of step ", steps.size(), " must be contiguous, got strides ",
                           to_string(image.strides()), " (in elements); make a contiguous copy"));
    const Dims& d = image.dims();
    const auto at = static_cast<size_t>(image.data() - image.buffer()->data());
    steps.emplace_back(image.buffer(), image.dtype(), Dims{d[0] * d[1] * d[2], d[3]}, Dims{d[3], 1}, at);
  }
  return steps;
}

StepSequence::StepSequence(std::string what, Steps steps, int64_t channels, const StepSequence* like)
    : what_(std::move(what)), channels_(channels), steps_(std::move(steps)) {
  if (steps_.empty()) throw ShapeError(cat("[", what_, "] needs one matrix per time step, got none"));
  if (like && like->count() != count())
    throw ShapeError(cat("[", what_, "] must have one matrix per time step like ", like->what(), " (", like->count(),
                         "), got ", count()));
  require_float(what_, dtype());
  for (size_t t = 0; t < steps_.size(); ++t) {
    const NDArray& step = steps_[t];
    if (step.dtype() != dtype())
      throw DTypeError(cat("[", what_, "] the matrices of all steps must have the same dtype, got ", dtype(),
                           " in step 0 and ", step.dtype(), " in step ", t));
    const int64_t wanted = like ? like->rows_at(t) : step.dims()[0];
    if (step.dims()[1] != channels_ || step.dims()[0] != wanted || step.dims()[0] < 1)
      throw ShapeError(cat("[", what_, "] step ", t, " must have shape ", like ? cat(wanted) : "1 or more", " x ",
                           channels_, " (sequences, feature channels), got ", step.dims()[0], " x ", step.dims()[1]));
    if (t && step.dims()[0] > steps_[t - 1].dims()[0])
      throw ShapeError(cat("[", what_, "] the number of rows must not increase from step to step, but step ", t,
                           " has ", step.dims()[0], " and the preceding step has ", steps_[t - 1].dims()[0],
                           "; sort the sequences so that the longest come first"));
  }
  find_array();
}

// Find out whether the steps together form one dense array in memory: every byte of that array must belong to one of
// the steps.
void StepSequence::find_array() {
  if (last_rows() != rows()) return;
  const auto item = static_cast<int64_t>(size_of(dtype()));
  const NDArray& first = steps_.front();
  const int64_t row = first.strides()[0];
  int64_t step = rows() * row;
  if (count() > 1) {
    const int64_t bytes = steps_[1].data() - first.data();
    if (bytes <= 0 || bytes % item) return;
    step = bytes / item;
  }
  for (size_t t = 0; t < steps_.size(); ++t) {
    const auto at = static_cast<int64_t>(t) * step * item;
    if (steps_[t].data() - first.data() != at || (rows() > 1 && steps_[t].strides()[0] != row)) return;
  }
  const auto is_dense = [](const Dims& dims, const Dims& strides) {
    const Dims dense = contiguous_strides(dims);
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (dims[axis] != 1 && strides[axis] != dense[axis]) return false;
    return true;
  };
  const Dims by_step{count(), rows(), channels_}, by_row{rows(), count(), channels_};
  if (!is_dense(by_step, {step, row, 1})) {
    if (!is_dense(by_row, {row, step, 1})) return;
    batch_first_ = true;
  }
  std::vector<std::shared_ptr<runtime::Buffer>> held;
  bool writable = true;
  for (const NDArray& one : steps_) {
    if (held.empty() || held.back() != one.buffer()) held.push_back(one.buffer());
    writable = writable && one.writable();
  }
  const Dims& dims = batch_first_ ? by_row : by_step;
  array_ =
      NDArray::borrow(first.data(), dtype(), dims, contiguous_strides(dims), [held = std::move(held)] {}, writable);
}

Dims StepSequence::dims() const {
  return batch_first_ ? Dims{rows(), count(), channels_} : Dims{count(), rows(), channels_};
}

std::vector<const std::byte*> StepSequence::addresses() const {
  std::vector<const std::byte*> result;
  for (const NDArray& step : steps_) result.push_back(step.data());
  return result;
}

void StepSequence::append_to(FormKey& key) const {
  key.push_back(given());
  if (!given()) return;
  for (int64_t number : {count(), rows(), channels_, static_cast<int64_t>(dtype()), int64_t{batch_first_}})
    key.push_back(number);
}

void StepSequence::require_apart(const StepSequence& other) const {
  const auto refuse = [&](size_t i, size_t j) {
    throw DeviceError(cat("[", what_, "] step ", i, " shares memory with ",
                          &other == this ? cat("step ", j) : cat(other.what(), " of step ", j),
                          "; use separate matrices"));
  };
  if (&other != this && array_.valid() && other.array_.valid()) {
    if (share_elements(array_, other.array_)) refuse(0, 0);
    return;
  }
  if (&other == this && array_.valid()) return;
  for (size_t i = 0; i < steps_.size(); ++i)
    for (size_t j = 0; j < (&other == this ? i : other.steps_.size()); ++j)
      if (share_elements(steps_[i], other.steps_[j])) refuse(i, j);
}

void StepSequence::require_writable() const {
  for (size_t t = 0; t < steps_.size(); ++t)
    if (!steps_[t].writable())
      throw DeviceError(cat("[", what_, "] step ", t, " is read-only; pass writable matrices"));
  require_apart(*this);
}

NDArray StepSequence::between() const {
  runtime::count_copy();
  NDArray array = NDArray::allocate(dtype(), dims());
  if (last_rows() != rows()) std::memset(array.data(), 0, array.bytes());
  return array;
}

namespace {

NDArray view_of_step(const NDArray& array, size_t step, int64_t rows) {
  const Dims& strides = array.strides();
  const size_t at = step * static_cast<size_t>(strides[0]) * size_of(array.dtype());
  return NDArray(array.buffer(), array.dtype(), {rows, array.dims()[2]}, {strides[1], 1}, at);
}

}  // namespace

NDArray StepSequence::as_input(std::vector<ArrayCopy>& before) const {
  if (array_.valid()) return array_;
  NDArray array = between();
  for (size_t t = 0; t < steps_.size(); ++t) before.push_back({view_of_step(array, t, rows_at(t)), steps_[t]});
  return array;
}

NDArray StepSequence::as_result(std::vector<ArrayCopy>& after) const {
  if (array_.valid()) return array_;
  NDArray array = between();
  for (size_t t = 0; t < steps_.size(); ++t) after.push_back({steps_[t], view_of_step(array, t, rows_at(t))});
  return array;
}

// --- graphs ----------------------------------------------------------------------------------------------------------

Tensor* SequenceGraph::input(std::string_view name, DType dtype, const Dims& dims) {
  const TensorType type{dtype, Shape(dims)};
  Tensor* tensor = graph_->add("placeholder", {}, {{"type", type}}, name);
  feeds_.emplace_back(tensor, type);
  return b.cast(tensor, DType::float32);
}

Tensor* SequenceGraph::input(const StepSequence& sequence) {
  Tensor* tensor = input("sequence", sequence.dtype(), sequence.dims());
  return sequence.batch_first() ? b.transpose(tensor, {1, 0, 2}) : tensor;
}

// Executables need distinct target tensors, so a repeated target is copied.
void SequenceGraph::result(Tensor* tensor, DType dtype) {
  tensor = b.cast(tensor, dtype);
  if (std::ranges::find(targets_, tensor) != targets_.end()) tensor = b.unary("identity", tensor);
  targets_.push_back(tensor);
}

void SequenceGraph::result(Tensor* tensor, const StepSequence& sequence) {
  result(sequence.batch_first() ? b.transpose(tensor, {1, 0, 2}) : tensor, sequence.dtype());
}

std::shared_ptr<runtime::Executable> SequenceGraph::compile(runtime::Device& device) {
  return runtime::DeviceGraph(graph_, device).compile(feeds_, targets_);
}

std::shared_ptr<runtime::Executable> SequenceForms::get(const FormKey& key, const Build& build) {
  constexpr size_t most = 32;
  std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    found->second.used = ++clock_;
    return found->second.executable;
  }
  auto executable = build();
  ++compiled_;
  if (entries_.size() == most)
    entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.used; }));
  entries_.emplace(key, Entry{executable, ++clock_});
  return executable;
}

size_t SequenceForms::count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

uint64_t SequenceForms::compiled() const {
  std::lock_guard lock(mutex_);
  return compiled_;
}

// --- runs ------------------------------------------------------------------------------------------------------------

void SequenceRun::input(const NDArray& array) {
  if (array.contiguous()) return inputs.push_back(array);
  runtime::count_copy();
  inputs.push_back(NDArray::allocate(array.dtype(), array.dims()));
  before.push_back({inputs.back(), array});
}

void SequenceRun::result(const NDArray& array, bool through_a_copy) {
  if (array.contiguous() && !through_a_copy) return results.push_back(array);
  runtime::count_copy();
  results.push_back(NDArray::allocate(array.dtype(), array.dims()));
  after.push_back({array, results.back()});
}

std::vector<NDArray> SequenceRun::encode(runtime::CommandBuffer& buffer, runtime::Executable& executable,
                                         const std::string& label) {
  const auto mark = buffer.mark();
  try {
    if (!before.empty()) encode_copies(buffer, std::move(before), label);
    std::vector<NDArray> all = executable.encode(buffer, std::move(inputs), std::move(results));
    if (!after.empty()) encode_copies(buffer, std::move(after), label);
    return all;
  } catch (...) {
    buffer.rewind(mark);
    throw;
  }
}

// --- checks ----------------------------------------------------------------------------------------------------------

runtime::Device& require_layers(std::string_view what, runtime::Device& device) {
  device.check_usable();
  if (device.name() != "cpu" && !find_recurrent_backend(device.name()))
    throw UnsupportedError(cat("[", what, "] does not run on device ", device.name(), "; use device=\"cpu\""));
  return device;
}

void require_open(std::string_view what, runtime::CommandBuffer& buffer, runtime::Device& device) {
  if (&buffer.queue().device() != &device)
    throw DeviceError(cat("[", what, "] the command buffer must belong to the layer's device ", device.name(),
                          ", got one of device ", buffer.queue().device().name()));
  if (buffer.status() != runtime::CommandBufferStatus::not_enqueued)
    throw DeviceError(cat("[", what, "] the command buffer has already been committed (status: ",
                          runtime::name(buffer.status()), "); create a new one with CommandQueue.command_buffer()"));
}

void check_state(std::string_view what, const LayerState& state, const RecurrentDescriptor& d, int64_t rows,
                 FormKey& key) {
  const auto check = [&](const NDArray& array, std::string_view name) {
    key.push_back(array.valid());
    if (!array.valid()) return;
    if (array.dims() != Dims{rows, d.outputs})
      throw ShapeError(cat("[", what, "] the state's ", name, " must have shape ", to_string(Dims{rows, d.outputs}),
                           " (sequences, output feature channels), got ", to_string(array.dims())));
    require_float(cat(what, ": the state's ", name), array.dtype());
    key.push_back(static_cast<int64_t>(array.dtype()));
  };
  if (state.cell.valid() && d.cell != RecurrentCell::lstm)
    throw GraphError(
        cat("[", what, "] the state has a memory cell, but the layer is not an LSTM; pass a state without one"));
  check(state.output, "output");
  check(state.cell, "memory cell");
}

std::vector<RecurrentState> allocate_states(runtime::Device& device, const std::vector<RecurrentDescriptor>& layers,
                                            const StepSequence& sources, bool all) {
  const auto count = static_cast<size_t>(sources.count());
  std::vector<RecurrentState> states;
  for (size_t step = all ? 0 : count - 1; step < count; ++step) {
    RecurrentState& state = states.emplace_back();
    for (const RecurrentDescriptor& d : layers) {
      const auto array = [&] { return device.backend().allocate(DType::float32, {sources.rows_at(step), d.outputs}); };
      LayerState one;
      one.output = array();
      if (d.cell == RecurrentCell::lstm) one.cell = array();
      state.push_back(one);
    }
  }
  return states;
}

}  // namespace mpsgraph::nngraph
