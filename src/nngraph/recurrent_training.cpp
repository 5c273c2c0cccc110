// The forward pass and the gradient pass of the training layer. Each validates its arguments, builds a graph for the
// sizes, dtypes, and layouts of the sequence, and runs that graph.
#include "nngraph/recurrent_training.h"

#include <algorithm>

#include "nngraph/recurrent_backend.h"
#include "nngraph/recurrent_cell.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;
using Tensors = std::vector<Tensor*>;

namespace {

enum class Role : int64_t { forward, gradient };
enum class Given : int64_t { none, last, all };

constexpr std::string_view forward_name = "encode_forward_sequence", gradient_name = "encode_gradient_sequence";

Tensor* step_of(Builder& b, Tensor* all, int64_t step) {
  const Dims& dims = all->shape().dims();
  Tensor* one = b.graph().add(
      "slice", {all},
      {{"starts", Ints{step, 0, 0}}, {"ends", Ints{step + 1, dims[1], dims[2]}}, {"strides", Ints{1, 1, 1}}});
  return b.graph().add("squeeze", {one}, {{"axes", Ints{0}}});
}

NDArray step_of(const NDArray& all, size_t step, int64_t rows) {
  const int64_t size = all.strides()[0];
  const size_t at =
      static_cast<size_t>(all.data() - all.buffer()->data()) + step * static_cast<size_t>(size) * size_of(all.dtype());
  return NDArray(all.buffer(), all.dtype(), {rows, all.dims()[2]}, {all.strides()[1], 1}, at);
}

NDArray first_rows(const NDArray& array, int64_t rows) {
  return NDArray(array.buffer(), array.dtype(), {rows, array.dims()[1]}, array.strides());
}

CellStart start_inputs(SequenceGraph& graph, const LayerState& state, std::string_view output, std::string_view cell) {
  CellStart start;
  if (state.output.valid()) start.state = graph.input(output, state.output.dtype(), state.output.dims());
  if (state.cell.valid()) start.cell = graph.input(cell, state.cell.dtype(), state.cell.dims());
  return start;
}

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

void add_inputs(SequenceRun& run, const LayerState& state) {
  if (state.output.valid()) run.input(state.output);
  if (state.cell.valid()) run.input(state.cell);
}

// Matrices that are written must overlap neither those that are read nor each other.
void require_apart(std::string_view what, const std::vector<Matrix>& written, const Steps& steps) {
  for (size_t i = 0; i < written.size(); ++i)
    for (size_t t = 0; t < steps.size(); ++t)
      if (share_elements(written[i].array(), steps[t]))
        throw DeviceError(
            cat("[", what, "] matrix ", i, " shares memory with a matrix of step ", t, "; use separate matrices"));
}

void require_apart(std::string_view what, const std::vector<Matrix>& written, const std::vector<Matrix>& others) {
  for (size_t i = 0; i < written.size(); ++i)
    for (size_t j = 0; j < (&written == &others ? i : others.size()); ++j)
      if (share_elements(written[i].array(), others[j].array()))
        throw DeviceError(cat("[", what, "] matrix ", i, " shares memory with ", &written == &others ? "" : "weight ",
                              "matrix ", j, "; use separate matrices"));
}

std::unique_ptr<DeviceTrainingLayer> made_on(runtime::Device& device, const RecurrentDescriptor& descriptor) {
  const RecurrentBackend* backend = find_recurrent_backend(device.name());
  return backend ? backend->make_training(device, descriptor) : nullptr;
}

}  // namespace

RecurrentTrainingLayer::RecurrentTrainingLayer(runtime::Device& device, RecurrentDescriptor descriptor)
    : device_(require_layers("RNNMatrixTrainingLayer", device)),
      number_(next_number()),
      descriptor_((descriptor.check(), std::move(descriptor))),
      layout_(descriptor_),
      on_device_(made_on(device_, descriptor_)) {}

RecurrentTrainingLayer::~RecurrentTrainingLayer() = default;

std::vector<MatrixDescriptor> RecurrentTrainingLayer::matrices_of(WeightRole role, DType dtype) const {
  if (on_device_)
    return role == WeightRole::weights ? on_device_->weight_matrices() : on_device_->gradient_matrices(dtype);
  std::vector<MatrixDescriptor> result;
  for (const WeightLayout::Size& size : layout_.matrices())
    result.push_back({.rows = size.rows, .columns = size.columns, .dtype = dtype});
  return result;
}

std::vector<Matrix> RecurrentTrainingLayer::initial_weights() const {
  return on_device_ ? on_device_->initial_weights() : layout_.initial(descriptor_);
}

std::vector<Matrix> RecurrentTrainingLayer::zero_weights() const {
  return on_device_ ? on_device_->zeros(on_device_->weight_matrices()) : layout_.zeros(descriptor_.weight_dtype());
}

std::vector<Matrix> RecurrentTrainingLayer::zero_gradients(DType dtype) const {
  if (dtype != DType::float32 && dtype != DType::float16)
    throw DTypeError(cat("[RNNMatrixTrainingLayer] weight matrices must be float32 or float16, got ", dtype));
  return on_device_ ? on_device_->zeros(on_device_->gradient_matrices(dtype)) : layout_.zeros(dtype);
}

void RecurrentTrainingLayer::check_weights(std::string_view what, const std::vector<Matrix>& weights, WeightRole role,
                                           FormKey* key) const {
  const size_t count = matrices_of(role, descriptor_.weight_dtype()).size();
  if (weights.size() != count)
    throw GraphError(
        cat("[", what, "] the number of weight matrices must be ", count, ", got ", weights.size(),
            "; pass those of trainable_weights, create_weight_matrices, or create_weight_gradient_matrices"));
  for (size_t i = 0; i < count; ++i) {
    const Matrix& matrix = weights[i];
    require_float(cat(what, ": matrix ", i), matrix.dtype());
    // Weights and gradients may have different layouts, depending on the device.
    const bool are_weights =
        role == WeightRole::weights || (role == WeightRole::either && matrix.dtype() == descriptor_.weight_dtype());
    const MatrixDescriptor size =
        matrices_of(are_weights ? WeightRole::weights : WeightRole::gradients, matrix.dtype())[i];
    if (matrix.rows() != size.rows || matrix.columns() != size.columns || matrix.descriptor().matrices != 1)
      throw ShapeError(cat("[", what, "] matrix ", i, " must have shape ", size.rows, " x ", size.columns, ", got ",
                           matrix.rows(), " x ", matrix.columns(),
                           "; pass the matrices in the order in which the layer created them"));
    if (on_device_ && matrix.dtype() != size.dtype)
      throw UnsupportedError(cat("[", what, "] matrix ", i, " must be ", size.dtype, " like the layer's weights, got ",
                                 matrix.dtype(), "; device ", device_.name(), " does not convert, so pass matrices of ",
                                 "create_weight_matrices"));
    if (on_device_ && matrix.rows() > 1 && matrix.descriptor().row_bytes != size.row_bytes)
      throw UnsupportedError(cat("[", what, "] the rows of matrix ", i, " must be ", size.row_bytes,
                                 " bytes apart, got ", matrix.descriptor().row_bytes, "; device ", device_.name(),
                                 " chooses the layout, so pass matrices that the layer created"));
    if (key) key->push_back(static_cast<int64_t>(matrix.dtype()));
  }
}

Tensors RecurrentTrainingLayer::weight_inputs(SequenceGraph& graph, const std::vector<Matrix>& weights) const {
  Tensors result;
  for (const Matrix& matrix : weights)
    result.push_back(graph.input("weights", matrix.dtype(), {matrix.rows(), matrix.columns()}));
  return result;
}

// --- forward ---------------------------------------------------------------------------------------------------------

ForwardResult RecurrentTrainingLayer::encode_forward(runtime::CommandBuffer& buffer, const ForwardSequence& s) {
  require_open(forward_name, buffer, device_);
  const StepSequence sources("source_matrices", steps_of_matrices("source_matrices", s.sources, s.source_offsets),
                             descriptor_.inputs, nullptr);
  const StepSequence destinations("destination_matrices",
                                  steps_of_matrices("destination_matrices", s.destinations, s.destination_offsets),
                                  descriptor_.outputs, &sources);
  destinations.require_writable();
  destinations.require_apart(sources);
  const Given given = !s.gives_states ? Given::none : store_all_intermediate_states ? Given::all : Given::last;
  FormKey key{static_cast<int64_t>(Role::forward), static_cast<int64_t>(given)};
  sources.append_to(key);
  destinations.append_to(key);
  check_weights("weights", s.weights, WeightRole::weights, &key);
  const LayerState start = s.input_state.value_or(LayerState());
  check_state("recurrent_input_state", start, descriptor_, sources.rows(), key);

  const auto shared = std::make_shared<TrainingRecord>();
  TrainingRecord& record = *shared;
  ForwardResult result;
  record.layer = number_;
  record.sources = sources.addresses();
  for (size_t t = 0; t < static_cast<size_t>(sources.count()); ++t) {
    record.rows.push_back(sources.rows_at(t));
    result.training_states.push_back({shared, t});
  }
  record.start = start;
  if (on_device_) {
    require_apart("weights", s.weights, destinations.steps());
    if (s.gives_states)
      for (const RecurrentState& state : allocate_states(device_, {descriptor_}, sources, given == Given::all))
        result.states.push_back(state.front());
    record.device =
        on_device_->encode_forward(buffer, {sources.steps(), destinations.steps(), s.weights, start, result.states});
    return result;
  }

  const bool lstm = descriptor_.cell == RecurrentCell::lstm, operation = CellGraph::is_operation(descriptor_);
  const bool keeps_states = operation && descriptor_.cell == RecurrentCell::gru;
  const auto executable = forms_.get(key, [&] {
    SequenceGraph graph;
    Tensor* source = graph.input(sources);
    CellGraph cell(graph.b, descriptor_, layout_, weight_inputs(graph, s.weights));
    const CellStart begin = start_inputs(graph, start, "state", "cell");
    const CellSequence result = cell.forward(source, begin, true);
    graph.result(result.states, destinations);
    if (keeps_states || given == Given::all) graph.result(result.states, DType::float32);
    if (lstm && (operation || given == Given::all)) graph.result(result.cells, DType::float32);
    if (operation) graph.result(result.gates, DType::float32);
    if (given == Given::last) {
      graph.result(step_of(graph.b, result.states, sources.count() - 1), DType::float32);
      if (lstm) graph.result(step_of(graph.b, result.cells, sources.count() - 1), DType::float32);
    }
    return graph.compile(device_);
  });

  SequenceRun run;
  run.input(sources);
  for (const Matrix& matrix : s.weights) run.input(matrix.array());
  add_inputs(run, start);
  run.result(destinations);
  while (run.results.size() < executable->targets().size()) run.result();
  const std::vector<NDArray> results = run.encode(buffer, *executable, std::string(forward_name));

  size_t next = 1;
  const auto take = [&](bool there) { return there ? results[next++] : NDArray(); };
  const NDArray states = take(keeps_states || given == Given::all);
  const NDArray cells = take(lstm && (operation || given == Given::all));
  if (keeps_states) record.states = states;
  if (operation) record.cells = cells;
  record.gates = take(operation);
  if (given == Given::last) {
    const NDArray last = take(true), last_cell = take(lstm);
    result.states.push_back(
        {first_rows(last, sources.last_rows()), lstm ? first_rows(last_cell, sources.last_rows()) : NDArray()});
  }
  for (size_t t = 0; given == Given::all && t < static_cast<size_t>(sources.count()); ++t)
    result.states.push_back(
        {step_of(states, t, sources.rows_at(t)), lstm ? step_of(cells, t, sources.rows_at(t)) : NDArray()});
  return result;
}

// --- gradients -------------------------------------------------------------------------------------------------------

TrainingRecord& RecurrentTrainingLayer::record_of(const GradientSequence& s, const StepSequence& sources) const {
  const auto refuse = [](const auto&... text) { throw GraphError(cat("[", gradient_name, "] ", text...)); };
  if (s.training_states.empty()) refuse("needs the training states returned by encode_forward_sequence, got none");
  TrainingRecord& record = *s.training_states.front().record;
  if (record.layer != number_) refuse("the training states belong to another layer; pass those of this layer");
  for (size_t t = 0; t < s.training_states.size(); ++t)
    if (s.training_states[t].record.get() != &record || s.training_states[t].step != t)
      refuse("the training states belong to several sequences or are out of order; pass those of one forward sequence ",
             "in the order in which it returned them");
  if (s.training_states.size() != record.rows.size())
    refuse("expected one training state per step (", record.rows.size(), "), got ", s.training_states.size());
  if (record.used)
    refuse("the training states have already been used by another gradient sequence; encode the forward sequence ",
           "again");
  std::vector<int64_t> rows;
  for (size_t t = 0; t < static_cast<size_t>(sources.count()); ++t) rows.push_back(sources.rows_at(t));
  if (rows != record.rows)
    refuse("the training states belong to a sequence of ", record.rows.size(), " step(s) with ", record.rows.front(),
           " row(s) in the first step, but forward_sources has ", rows.size(), " step(s) with ", rows.front(),
           " row(s)");
  if (sources.addresses() != record.sources)
    refuse("the training states belong to another sequence: forward_sources must be the matrices that the forward ",
           "sequence read");
  return record;
}

std::optional<LayerState> RecurrentTrainingLayer::encode_gradient(runtime::CommandBuffer& buffer,
                                                                  const GradientSequence& s) {
  require_open(gradient_name, buffer, device_);
  if (!s.gives_destinations && !s.gives_weights && !s.gives_states)
    throw GraphError(cat("[", gradient_name, "] would compute nothing; pass destination_gradients, ",
                         "weight_gradients, or recurrent_output_states"));
  const bool lstm = descriptor_.cell == RecurrentCell::lstm;
  const StepSequence sources("forward_sources",
                             steps_of_matrices("forward_sources", s.forward_sources, s.forward_source_offsets),
                             descriptor_.inputs, nullptr);
  const StepSequence incoming("source_gradients",
                              steps_of_matrices("source_gradients", s.source_gradients, s.source_gradient_offsets),
                              descriptor_.outputs, &sources);
  TrainingRecord& record = record_of(s, sources);
  FormKey key{static_cast<int64_t>(Role::gradient), int64_t{s.gives_weights}, int64_t{accumulate_weight_gradients},
              int64_t{s.gives_states}};
  StepSequence destinations;
  if (s.gives_destinations) {
    destinations = StepSequence(
        "destination_gradients",
        steps_of_matrices("destination_gradients", s.destination_gradients, s.destination_gradient_offsets),
        descriptor_.inputs, &sources);
    destinations.require_writable();
    destinations.require_apart(sources);
    destinations.require_apart(incoming);
  }
  for (const StepSequence* sequence : {&sources, &incoming, static_cast<const StepSequence*>(&destinations)})
    sequence->append_to(key);
  check_weights("weights", s.weights, WeightRole::weights, &key);
  if (s.gives_weights) {
    check_weights("weight_gradients", s.weight_gradients, WeightRole::gradients, &key);
    require_apart("weight_gradients", s.weight_gradients, s.weights);
    require_apart("weight_gradients", s.weight_gradients, s.weight_gradients);
    for (const StepSequence* steps : {&sources, &incoming, static_cast<const StepSequence*>(&destinations)})
      require_apart("weight_gradients", s.weight_gradients, steps->steps());
    for (const Matrix& matrix : s.weight_gradients)
      if (!matrix.array().writable())
        throw DeviceError(
            cat("[", gradient_name, "] a matrix of weight_gradients is read-only; pass writable matrices"));
  }
  const LayerState last = s.input_state.value_or(LayerState());
  check_state("recurrent_input_state", last, descriptor_, sources.last_rows(), key);
  if ((last.output.valid() || last.cell.valid()) && sources.last_rows() != sources.rows())
    throw UnsupportedError(cat("[", gradient_name,
                               "] recurrent_input_state requires the same number of rows in all steps; "
                               "add the gradient of the last state to source_gradients instead"));
  check_state("training_states", record.start, descriptor_, sources.rows(), key);
  if (on_device_) {
    if (s.gives_states || last.output.valid() || last.cell.valid())
      throw UnsupportedError(cat("[", gradient_name, "] recurrent states are not supported on device ", device_.name(),
                                 ", because Apple does not document their meaning in gradients; omit them or use "
                                 "device=\"cpu\""));
    require_apart("weights", s.weights, destinations.steps());
    on_device_->encode_gradient(buffer,
                                {sources.steps(), incoming.steps(), destinations.steps(), s.weight_gradients, s.weights,
                                 accumulate_weight_gradients},
                                record.device);
    record.used = true;
    record.device = nullptr;
    return std::nullopt;
  }

  const bool adds = s.gives_weights && accumulate_weight_gradients;
  const auto executable = forms_.get(key, [&] {
    SequenceGraph graph;
    Tensor *source = graph.input(sources), *gradient = graph.input(incoming);
    CellGraph cell(graph.b, descriptor_, layout_, weight_inputs(graph, s.weights));
    CellStart begin = start_inputs(graph, record.start, "state", "cell");
    const CellStart end = start_inputs(graph, last, "state_gradient", "cell_gradient");
    CellSequence known;
    if (record.states.valid()) known.states = graph.input("states", DType::float32, record.states.dims());
    if (record.cells.valid()) known.cells = graph.input("cells", DType::float32, record.cells.dims());
    if (record.gates.valid()) known.gates = graph.input("gates", DType::float32, record.gates.dims());
    Tensors before;
    if (adds) before = weight_inputs(graph, s.weight_gradients);
    if (s.gives_states) {  // a state that was initialized to zero has a gradient, too
      const auto zeros = [&] {
        return graph.b.filled({DType::float32, Shape{sources.rows(), descriptor_.outputs}}, 0);
      };
      if (!begin.state) begin.state = zeros();
      if (lstm && !begin.cell) begin.cell = zeros();
    }
    const CellGradients found = cell.backward(source, begin, known, gradient, end);
    if (s.gives_destinations) graph.result(found.source, destinations);
    for (size_t i = 0; s.gives_weights && i < s.weight_gradients.size(); ++i)
      graph.result(adds ? graph.b.add(before[i], found.weights[i]) : found.weights[i], s.weight_gradients[i].dtype());
    if (s.gives_states) graph.result(found.state, DType::float32);
    if (s.gives_states && lstm) graph.result(found.cell, DType::float32);
    return graph.compile(device_);
  });

  SequenceRun run;
  run.input(sources);
  run.input(incoming);
  for (const Matrix& matrix : s.weights) run.input(matrix.array());
  add_inputs(run, record.start);
  add_inputs(run, last);
  for (const NDArray* known : {&record.states, &record.cells, &record.gates})
    if (known->valid()) run.input(*known);
  if (adds)
    for (const Matrix& matrix : s.weight_gradients) run.input(matrix.array());
  if (s.gives_destinations) run.result(destinations);
  if (s.gives_weights)
    for (const Matrix& matrix : s.weight_gradients) run.result(matrix.array(), adds);
  while (run.results.size() < executable->targets().size()) run.result();
  const std::vector<NDArray> results = run.encode(buffer, *executable, std::string(gradient_name));

  record.used = true;
  record.states = record.cells = record.gates = NDArray();  // the run keeps them alive until it completes
  if (!s.gives_states) return std::nullopt;
  const size_t first = results.size() - (lstm ? 2 : 1);
  return LayerState{results[first], lstm ? results[first + 1] : NDArray()};
}

// --- weights ---------------------------------------------------------------------------------------------------------

void RecurrentTrainingLayer::encode_copy_weights(runtime::CommandBuffer& buffer, const std::vector<Matrix>& weights,
                                                 MatrixId id, const Matrix& matrix, bool from_weights,
                                                 const MatrixOrigin& origin) {
  constexpr std::string_view what = "encode_copy_weights";
  require_open(what, buffer, device_);
  check_weights("weights", weights, WeightRole::either, nullptr);
  const WeightPart& part = layout_.part(id);
  if (origin.row < 0 || origin.column < 0 || origin.row > matrix.rows() - part.rows ||
      origin.column > matrix.columns() - part.columns)
    throw ShapeError(cat("[", what, "] ", name(id), " needs ", part.rows, " x ", part.columns,
                         " elements starting at row ", origin.row, ", column ", origin.column,
                         ", but the matrix is only ", matrix.rows(), " x ", matrix.columns()));
  const DType dtype = weights.front().dtype();
  if (dtype != matrix.dtype())
    throw DTypeError(cat("[", what,
                         "] weights and matrix must have the same dtype, because the copy converts nothing; got ",
                         dtype, " and ", matrix.dtype()));
  const auto require_writable = [&](const NDArray& array) {
    if (!array.writable())
      throw DeviceError(
          cat("[", what, "] the ", from_weights ? "matrix is" : "weights are", " read-only; pass a writable array"));
  };
  const auto window = [&](const NDArray& array, int64_t row, int64_t column) {
    const size_t at = static_cast<size_t>(array.data() - array.buffer()->data()) +
                      static_cast<size_t>(row * array.strides()[0] + column) * size_of(array.dtype());
    return NDArray(array.buffer(), array.dtype(), {part.rows, part.columns}, array.strides(), at);
  };
  const NDArray there = window(matrix.at(origin.matrix, 0, what), origin.row, origin.column);
  if (on_device_) {
    if (from_weights) require_writable(there);
    for (const Matrix& own : weights) {
      if (!from_weights) require_writable(own.array());
      if (share_elements(there, own.array()))
        throw DeviceError(cat("[", what, "] the matrix must not share memory with the weights; use a separate matrix"));
    }
    return on_device_->encode_copy_weights(buffer, weights, id, there, from_weights);
  }
  ArrayCopy copy{there, window(weights[part.matrix].array(), part.row, part.column)};
  if (!from_weights) std::swap(copy.to, copy.from);
  require_writable(copy.to);
  if (share_elements(copy.to, copy.from))
    throw DeviceError(cat("[", what, "] the matrix must not share memory with the weights; use a separate matrix"));
  encode_copies(buffer, {std::move(copy)}, std::string(what));
}

}  // namespace mpsgraph::nngraph
