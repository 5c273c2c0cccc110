// Inference of stacks of recurrent layers, unidirectional and bidirectional. The weights are constants of the graph.
#include "nngraph/recurrent_inference.h"

#include "nngraph/recurrent_backend.h"
#include "nngraph/recurrent_cell.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;
using Tensors = std::vector<Tensor*>;

RecurrentInferenceLayer::RecurrentInferenceLayer(std::string name, runtime::Device& device,
                                                 std::vector<RecurrentDescriptor> descriptors, bool images)
    : name_(std::move(name)), device_(require_layers(name_, device)), descriptors_(std::move(descriptors)) {
  if (descriptors_.empty())
    throw GraphError(cat("[", name_, "] needs at least one descriptor, one per layer; got none"));
  for (const RecurrentDescriptor& descriptor : descriptors_) {
    descriptor.check();
    layouts_.emplace_back(descriptor);
    weights_.push_back(layouts_.back().initial(descriptor));
  }
  if (layers_of(true).empty() || layers_of(false).empty()) {
    std::vector<size_t> all;
    for (size_t i = 0; i < layer_count(); ++i) all.push_back(i);
    check_chain(all);
  } else {
    check_chain(layers_of(false));
    check_chain(layers_of(true));
    if (descriptors_[layers_of(false)[0]].inputs != descriptors_[layers_of(true)[0]].inputs)
      throw ShapeError(cat("[", name_,
                           "] the first layers of both directions read the same input, so they must have "
                           "the same number of input feature channels; got ",
                           descriptors_[layers_of(false)[0]].inputs, " and ", descriptors_[layers_of(true)[0]].inputs));
  }
  if (const RecurrentBackend* backend = find_recurrent_backend(device_.name()))
    on_device_ = backend->make_inference(device_, descriptors_, images);
}

RecurrentInferenceLayer::~RecurrentInferenceLayer() = default;

std::vector<size_t> RecurrentInferenceLayer::layers_of(bool backward) const {
  std::vector<size_t> layers;
  for (size_t i = 0; i < descriptors_.size(); ++i)
    if (descriptors_[i].backward == backward) layers.push_back(i);
  return layers;
}

void RecurrentInferenceLayer::check_chain(const std::vector<size_t>& layers) const {
  for (size_t i = 1; i < layers.size(); ++i) {
    const int64_t given = descriptors_[layers[i - 1]].outputs, taken = descriptors_[layers[i]].inputs;
    if (given != taken)
      throw ShapeError(cat("[", name_, "] layer ", layers[i], " must have ", given,
                           " input feature channel(s), like the output of the preceding layer ", layers[i - 1],
                           "; got ", taken));
  }
}

Tensors RecurrentInferenceLayer::weights_of(SequenceGraph& graph, size_t layer) const {
  Tensors result;
  for (const Matrix& matrix : weights_[layer]) {
    const NDArray& array = matrix.array();
    ConstantPtr data = ConstantData::borrow(array.dtype(), array.dims(), array.data(), array.buffer());
    result.push_back(graph.b.cast(graph.b.graph().add("constant", {}, {{"value", std::move(data)}}), DType::float32));
  }
  return result;
}

std::vector<RecurrentState> RecurrentInferenceLayer::encode_sequence(runtime::CommandBuffer& buffer, Steps source_steps,
                                                                     Steps destination_steps,
                                                                     const std::optional<RecurrentState>& input_state,
                                                                     bool gives_states) {
  constexpr std::string_view what = "encode_sequence";
  require_open(what, buffer, device_);
  std::vector<size_t> layers;
  for (size_t i = 0; i < layer_count(); ++i) layers.push_back(i);
  check_chain(layers);
  const StepSequence sources("sources", std::move(source_steps), descriptors_.front().inputs, nullptr);
  const StepSequence destinations("destinations", std::move(destination_steps), descriptors_.back().outputs, &sources);
  destinations.require_writable();
  destinations.require_apart(sources);
  FormKey key{0, int64_t{gives_states}, int64_t{store_all_intermediate_states}};
  sources.append_to(key);
  destinations.append_to(key);
  if (input_state && input_state->size() != layer_count())
    throw GraphError(cat("[", what, "] the recurrent input state must have one entry per layer (", layer_count(),
                         "), got ", input_state->size()));
  const RecurrentState start = input_state.value_or(RecurrentState(layer_count()));
  for (size_t i = 0; i < layer_count(); ++i) check_state(what, start[i], descriptors_[i], sources.rows(), key);

  const bool all = store_all_intermediate_states;
  if (on_device_) {
    std::vector<RecurrentState> ends;
    if (gives_states) ends = allocate_states(device_, descriptors_, sources, all);
    on_device_->encode_sequence(buffer, {sources.steps(), destinations.steps(), start, ends});
    return ends;
  }
  const auto executable = forms_.get(key, [&] {
    SequenceGraph graph;
    Tensor* x = graph.input(sources);
    std::vector<CellSequence> found;
    for (size_t i = 0; i < layer_count(); ++i) {
      CellStart begin;
      const LayerState& given = start[i];
      if (given.output.valid()) begin.state = graph.input("state", given.output.dtype(), given.output.dims());
      if (given.cell.valid()) begin.cell = graph.input("cell", given.cell.dtype(), given.cell.dims());
      found.push_back(CellGraph(graph.b, descriptors_[i], layouts_[i], weights_of(graph, i)).forward(x, begin, false));
      x = found.back().states;
    }
    graph.result(x, destinations);
    const auto wanted = [&](Tensor* steps) {
      const Dims& d = steps->shape().dims();
      if (!all)
        steps = graph.b.graph().add("slice", {steps},
                                    {{"starts", Ints{d[0] - 1, 0, 0}}, {"ends", Ints(d)}, {"strides", Ints{1, 1, 1}}});
      graph.result(steps, DType::float32);
    };
    for (size_t i = 0; gives_states && i < layer_count(); ++i) {
      wanted(found[i].states);
      if (found[i].cells) wanted(found[i].cells);
    }
    return graph.compile(device_);
  });

  SequenceRun run;
  run.input(sources);
  for (const LayerState& state : start) {
    if (state.output.valid()) run.input(state.output);
    if (state.cell.valid()) run.input(state.cell);
  }
  run.result(destinations);
  while (run.results.size() < executable->targets().size()) run.result();
  const std::vector<NDArray> results = run.encode(buffer, *executable, name_);
  if (!gives_states) return {};

  std::vector<RecurrentState> states(all ? static_cast<size_t>(sources.count()) : 1);
  for (size_t s = 0; s < states.size(); ++s) {
    const int64_t rows = all ? sources.rows_at(s) : sources.last_rows();
    size_t next = 1;
    const auto take = [&] {
      const NDArray& steps = results[next++];
      const Dims& d = steps.dims();
      const size_t at = static_cast<size_t>(steps.data() - steps.buffer()->data()) +
                        s * static_cast<size_t>(d[1] * d[2]) * size_of(steps.dtype());
      return NDArray(steps.buffer(), steps.dtype(), {rows, d[2]}, {d[2], 1}, at);
    };
    for (const RecurrentDescriptor& descriptor : descriptors_) {
      LayerState state;
      state.output = take();
      if (descriptor.cell == RecurrentCell::lstm) state.cell = take();
      states[s].push_back(state);
    }
  }
  return states;
}

Tensor* RecurrentInferenceLayer::through(SequenceGraph& graph, const std::vector<size_t>& layers, Tensor* source,
                                         bool reverse) {
  for (size_t i : layers)
    source = CellGraph(graph.b, descriptors_[i], layouts_[i], weights_of(graph, i))
                 .forward(source, {}, false, reverse)
                 .states;
  return source;
}

void RecurrentInferenceLayer::encode_bidirectional_sequence(runtime::CommandBuffer& buffer, Steps source_steps,
                                                            Steps forward_steps, Steps backward_steps) {
  constexpr std::string_view what = "encode_bidirectional_sequence";
  require_open(what, buffer, device_);
  const std::vector<size_t> ahead = layers_of(false), back = layers_of(true);
  if (ahead.empty() || back.empty())
    throw GraphError(
        cat("[", what,
            "] needs layers of both directions, but all have the same direction; set layer_sequence_direction of some "
            "descriptors to backward before creating the layer"));
  const bool separate = combine_mode == BidirectionalCombineMode::none;
  if (separate == backward_steps.empty())
    throw GraphError(
        cat("[", what, "] ",
            separate ? "combine mode 'none' returns separate results: pass backward destinations, too"
                     : "combine modes 'add' and 'concatenate' return one result: pass no backward destinations"));
  const int64_t ahead_channels = descriptors_[ahead.back()].outputs, back_channels = descriptors_[back.back()].outputs;
  const bool adds = combine_mode == BidirectionalCombineMode::add;
  if (adds && ahead_channels != back_channels)
    throw ShapeError(cat("[", what,
                         "] results can only be added if both directions have the same number of feature "
                         "channels, got ",
                         ahead_channels, " and ", back_channels, "; use combine mode 'concatenate'"));
  const StepSequence sources("sources", std::move(source_steps), descriptors_[ahead.front()].inputs, nullptr);
  if (sources.last_rows() != sources.rows())
    throw UnsupportedError(cat("[", what,
                               "] all steps must have the same number of rows, because the backward "
                               "direction would start in the padding; got ",
                               sources.rows(), " rows in the first step and ", sources.last_rows(), " in the last"));
  const StepSequence first("forward destinations", std::move(forward_steps),
                           separate || adds ? ahead_channels : ahead_channels + back_channels, &sources);
  StepSequence second;
  if (separate) second = StepSequence("backward destinations", std::move(backward_steps), back_channels, &sources);
  FormKey key{1, static_cast<int64_t>(combine_mode)};
  sources.append_to(key);
  for (const StepSequence* destinations : {&first, static_cast<const StepSequence*>(&second)}) {
    destinations->append_to(key);
    if (!destinations->given()) continue;
    destinations->require_writable();
    destinations->require_apart(sources);
  }
  if (separate) second.require_apart(first);
  if (on_device_)
    return on_device_->encode_bidirectional_sequence(buffer,
                                                     {sources.steps(), first.steps(), second.steps(), combine_mode});

  const auto executable = forms_.get(key, [&] {
    SequenceGraph graph;
    Tensor* source = graph.input(sources);
    Tensor *one = through(graph, ahead, source, false), *other = through(graph, back, source, true);
    if (separate) {
      graph.result(one, first);
      graph.result(other, second);
    } else {
      graph.result(adds ? graph.b.add(one, other) : graph.b.graph().add("concat", {one, other}, {{"axis", int64_t{2}}}),
                   first);
    }
    return graph.compile(device_);
  });
  SequenceRun run;
  run.input(sources);
  run.result(first);
  if (separate) run.result(second);
  run.encode(buffer, *executable, name_);
}

}  // namespace mpsgraph::nngraph
