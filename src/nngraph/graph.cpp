// NNGraph: collects the filters that lead to the results, orders them, and encodes batches.
#include "nngraph/graph.h"

#include <algorithm>

#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/backend.h"
#include "nngraph/definition.h"
#include "nngraph/lowering.h"
#include "nngraph/transaction.h"
#include "runtime/backend.h"

namespace mpsgraph::nngraph {

using runtime::CommandBuffer;
using runtime::NDArray;

namespace {

std::string named(const ImageNode& image, size_t i) {
  return image.handle.empty() ? cat("source image ", i) : cat("source image '", image.handle, "'");
}

std::vector<std::string> handles(const std::vector<ImagePtr>& images) {
  std::vector<std::string> result;
  for (const ImagePtr& image : images) result.push_back(image->handle);
  return result;
}

NDArray number(double value) {
  NDArray result = NDArray::allocate(DType::float32, {});
  *reinterpret_cast<float*>(result.data()) = static_cast<float>(value);
  return result;
}

// Return the state of the Philox random number generator for one batch: the key is the seed, and the upper half of the
// counter is the batch number.
NDArray philox_state(int64_t seed, int64_t batch) {
  NDArray result = NDArray::allocate(DType::int32, {7});
  const auto s = static_cast<uint64_t>(seed), n = static_cast<uint64_t>(batch);
  const uint32_t words[7] = {1,
                             0,
                             0,
                             static_cast<uint32_t>(n),
                             static_cast<uint32_t>(n >> 32),
                             static_cast<uint32_t>(s),
                             static_cast<uint32_t>(s >> 32)};
  std::copy_n(words, 7, reinterpret_cast<uint32_t*>(result.data()));
  return result;
}

}  // namespace

NNGraph::NNGraph(runtime::Device& device, std::vector<ImagePtr> results, std::vector<bool> needed)
    : device_(&device), results_(std::move(results)), needed_(std::move(needed)), state_(std::make_unique<State>()) {
  if (results_.empty()) throw GraphError("[NNGraph] needs at least one result image, got none");
  if (std::find(results_.begin(), results_.end(), nullptr) != results_.end())
    throw GraphError("[NNGraph] result images must be image nodes, got None");
  if (needed_.empty()) needed_.assign(results_.size(), true);
  if (needed_.size() != results_.size())
    throw GraphError(cat("[NNGraph] results_are_needed must have one entry per result image (", results_.size(),
                         "), got ", needed_.size()));
  const NodeBackend* backend = find_node_backend(device.name());
  find_filters();
  require_states(backend != nullptr);
  read_data_sources(backend != nullptr);
  require_purpose();
  if (backend)
    state_->nodes = backend->make_nodes(*this);
  else
    state_->on_device = std::make_unique<runtime::DeviceGraph>(state_->graph, device);
  for (const auto& layer : state_->layers)
    if (layer->has_optimizer())
      layer->source->held_by(state_.get(), [state = state_.get(), held = layer.get()] { state->store(*held); });
}

void NNGraph::State::store(Layer& layer) {
  const std::lock_guard lock(mutex);
  if (nodes) nodes->wait_for_values();
  layer.store(on_device.get());
}

NNGraph::~NNGraph() {
  for (const auto& layer : state_->layers) {
    if (!layer->source->is_held_by(state_.get())) continue;
    try {
      state_->store(*layer);
    } catch (...) {  // The device is lost, so the source keeps its previous values.
    }
    layer->source->held_by(nullptr, {});
  }
}

// Order the filters topologically. A gradient filter depends on its forward filter, too.
void NNGraph::find_filters() {
  enum class Visit { open, done };
  std::map<const FilterNode*, Visit> visits;
  std::set<const ImageNode*> known;
  const auto input = [&](const ImagePtr& image) {
    if (known.insert(image.get()).second) inputs_.push_back(image);
  };
  std::vector<std::pair<FilterNode*, size_t>> stack;
  const auto open = [&](FilterNode* filter) {
    const auto [visit, fresh] = visits.emplace(filter, Visit::open);
    if (fresh) return stack.emplace_back(filter, 0), void();
    if (visit->second == Visit::open)
      throw GraphError(
          cat("[", filter->title(), "] depends on its own result: its images form a cycle", filter->where()));
  };
  for (const ImagePtr& result : results_) {
    if (!result->producer) throw GraphError("[NNGraph] result images must be produced by a filter, got an input image");
    open(result->producer);
    while (!stack.empty()) {
      auto& [filter, next] = stack.back();
      // A gradient filter depends on its forward filter in addition to the incoming gradient. Any other filter may
      // depend on the filter whose state it reads.
      FilterNode* read = filter->forward().get();
      if (!read && filter->source_state()) read = filter->source_state()->producer;
      const size_t before = read ? 1 : 0;
      if (next == filter->sources().size() + before) {
        visits[filter] = Visit::done;
        filters_.push_back(filter->shared_from_this());
        if (filter->is_gradient()) derived_.insert(filter->forward().get());
        stack.pop_back();
        continue;
      }
      const size_t i = next++;
      if (i < before) {
        open(read);
        continue;
      }
      const ImagePtr& source = filter->sources()[i - before];
      if (source->producer)
        open(source->producer);
      else
        input(source);
    }
  }
  for (const FilterPtr& filter : filters_) {
    const ImagePtr image = filter->result_image();
    if (image->export_from_graph) exports_.push_back(image);
    if (filter->is_gradient()) continue;
    if (!filter->definition().states.empty()) losses_.push_back(filter);
    if (filter->result_state() && filter->state().export_from_graph) state_exports_.push_back(filter);
  }
}

// Check that the exported states are computed, and that the device can export states.
void NNGraph::require_states(bool by_device) const {
  for (const FilterPtr& filter : state_exports_)
    if (filter->parameters() && !has_gradient(*filter))
      throw GraphError(cat("[", filter->title(),
                           "] cannot export its state: the state holds the gradients of the parameters, but the "
                           "filter's gradient filter does not lead to a result",
                           filter->where()));
  if (!by_device) return;
  const auto refuse = [&](const FilterNode& filter, std::string_view what) {
    throw UnsupportedError(cat("[", filter.title(), "] device ", device_->name(), " ", what,
                               " states yet; use device=\"cpu\"", filter.where()));
  };
  for (const FilterPtr& filter : state_exports_) refuse(*filter, "cannot export");
  for (const FilterPtr& filter : filters_)
    if (filter->source_state()) refuse(*filter, "cannot read");
}

void NNGraph::read_data_sources(bool by_device) {
  std::map<State::SourceKey, bool> trains, other;
  for (const FilterPtr& filter : filters_) {
    if (!filter->parameters()) continue;
    const State::SourceKey key = State::key_of(*filter->parameters());
    trains[key] |= filter->is_gradient();
    other[key] |= !filter->definition().matrix;
  }
  for (const FilterPtr& filter : filters_) {
    const std::shared_ptr<DataSource>& source = filter->parameters();
    if (!source) continue;
    const State::SourceKey key = State::key_of(*source);
    if (state_->by_source.contains(key)) continue;
    const Layer::Use use{
        .trains = trains[key], .on_demand = derived_.empty(), .by_device = by_device, .matrix = !other[key]};
    state_->layers.push_back(
        std::make_unique<Layer>(source, cat("[", filter->title(), filter->where(), "]"), use, *state_->graph));
    state_->by_source[key] = state_->layers.back().get();
  }
}

// Throws GraphError if a batch would have no effect: no result is needed, nothing is exported, no loss is measured, and
// no layer is trained.
void NNGraph::require_purpose() const {
  const bool read =
      std::find(needed_.begin(), needed_.end(), true) != needed_.end() || !exports_.empty() || !state_exports_.empty();
  const bool measured = !losses_.empty() && derived_.empty();
  const bool trains = std::any_of(state_->layers.begin(), state_->layers.end(),
                                  [](const auto& layer) { return layer->updates_itself() || layer->has_optimizer(); });
  if (!read && !measured && !trains)
    throw GraphError(cat("[NNGraph] would compute nothing: none of its results is needed, and no layer before ",
                         results_[0]->producer->title(),
                         " trains; give the data sources an optimizer or an update method",
                         results_[0]->producer->where()));
}

std::vector<std::string> NNGraph::source_image_handles() const { return handles(inputs_); }
std::vector<std::string> NNGraph::intermediate_image_handles() const { return handles(exports_); }

std::vector<std::string> NNGraph::source_state_handles() const {
  std::vector<std::string> result;
  for (const FilterPtr& loss : losses_) {
    const bool named = loss->source_state() && !loss->source_state()->handle.empty();
    result.push_back(named ? loss->source_state()->handle : loss->label);
  }
  return result;
}

std::vector<std::string> NNGraph::result_state_handles() const {
  std::vector<std::string> result;
  for (const FilterPtr& filter : state_exports_)
    result.push_back(filter->state().handle.empty() ? filter->label : filter->state().handle);
  return result;
}

void NNGraph::set_format(ChannelFormat format) {
  if (format != ChannelFormat::float16 && format != ChannelFormat::float32)
    throw GraphError(cat("[NNGraph] format must be float16 or float32, got ", name(format)));
  format_ = format;
}

void NNGraph::check_inputs(const std::vector<ImageBatch>& sources, const std::vector<LabelsBatch>& labels) const {
  if (sources.size() != inputs_.size())
    throw GraphError(
        cat("[NNGraph] the number of batches of source images must be ", inputs_.size(), ", got ", sources.size()));
  if (labels.size() != losses_.size())
    throw GraphError(cat("[NNGraph] the number of batches of labels or source states must be ", losses_.size(),
                         " (one per filter that reads them), got ", labels.size()));
  const auto check_array = [](const NDArray& array, const std::string& what) {
    if (!array.valid() || array.dims().size() != 4 || array.elements() == 0)
      throw ShapeError(cat("[NNGraph] ", what, " must be a non-empty array [images, height, width, channels], got ",
                           array.valid() ? to_string(array.dims()) : "None"));
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    const NDArray& array = sources[i].array;
    check_array(array, named(*inputs_[i], i));
    const DType dtype = array.dtype();
    if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::uint8 && dtype != DType::uint16)
      throw DTypeError(cat("[NNGraph] ", named(*inputs_[i], i),
                           " must be float32, float16, uint8 (unorm8), or uint16 (unorm16), got ", dtype));
    if (array.dims()[0] != sources[0].array.dims()[0])
      throw ShapeError(cat("[NNGraph] all source batches must have the same number of images, but ",
                           named(*inputs_[0], 0), " has ", sources[0].array.dims()[0], " and ", named(*inputs_[i], i),
                           " has ", array.dims()[0]));
  }
  for (size_t i = 0; i < labels.size(); ++i)
    for (const NDArray* array : {&labels[i].labels, &labels[i].weights}) {
      if (array == &labels[i].weights && !array->valid()) continue;
      const bool of_loss = losses_[i]->definition().takes_labels();
      check_array(*array, cat(of_loss ? "labels of " : "the state for ", losses_[i]->title()));
      if (array->dtype() != DType::float32)
        throw DTypeError(cat("[", losses_[i]->title(), "] labels and weights must be float32, got ", array->dtype(),
                             losses_[i]->where()));
      if (array->dims()[0] != sources[0].array.dims()[0])
        throw ShapeError(cat("[", losses_[i]->title(), "] ", of_loss ? "labels" : "source state",
                             " must have as many images as the source images (", sources[0].array.dims()[0], "), got ",
                             array->dims()[0], of_loss ? "" : "; the state belongs to another batch",
                             losses_[i]->where()));
    }
}

EncodeResults NNGraph::encode_batch(const std::shared_ptr<CommandBuffer>& buffer, std::vector<ImageBatch> sources,
                                    std::vector<LabelsBatch>& labels) {
  if (&buffer->queue().device() != device_)
    throw DeviceError(cat("[NNGraph] the command buffer must belong to the graph's device ", device_->name(),
                          ", got one of device ", buffer->queue().device().name()));
  check_inputs(sources, labels);
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<Lowered> lowered = lower(sources, labels);
  if (state_->nodes) return encode_on_device(*lowered, buffer, sources, labels);
  std::vector<NDArray> inputs;
  for (ImageBatch& source : sources) inputs.push_back(std::move(source.array));
  for (const FedParameter& fed : lowered->parameters) inputs.push_back(fed.layer->slots[fed.slot].value);
  for (const auto& [loss, weights] : lowered->labels)
    inputs.push_back(weights ? labels[loss].weights : labels[loss].labels);
  for (const auto& optimizer : lowered->rates) inputs.push_back(number(optimizer->step_rate()));
  for (int64_t seed : lowered->seeds) inputs.push_back(philox_state(seed, state_->batches));

  const CommandBuffer::Mark mark = buffer->mark();
  EncodeTransaction transaction;
  std::vector<NDArray> results;
  try {
    results = lowered->executable ? lowered->executable->encode(*buffer, std::move(inputs))
                                  : encode_parts(lowered, *buffer, std::move(inputs));
    const size_t before = lowered->results.size() + exports_.size() + lowered->loss_count;
    update_outside(*lowered, buffer, results.begin() + static_cast<std::ptrdiff_t>(before));
  } catch (...) {
    buffer->rewind(mark);
    throw;
  }
  transaction.keep();
  for (const auto& optimizer : lowered->rates) optimizer->advance();
  ++state_->batches;

  EncodeResults out;
  out.images.resize(results_.size());
  auto next = results.begin();
  for (size_t i : lowered->results) out.images[i].array = *next++;
  for (size_t i = 0; i < exports_.size(); ++i) out.intermediates.push_back({*next++});
  for (size_t i = 0; i < labels.size(); ++i)
    if (losses_[i]->definition().takes_labels()) labels[i].losses = *next++;
  for (const auto& names : lowered->gradients) next += static_cast<std::ptrdiff_t>(names.size());
  for (const auto& names : lowered->left) {
    std::vector<NamedArray> arrays;
    for (const std::string& name : names) arrays.push_back({name, *next++});
    out.states.push_back(std::make_shared<ParameterState>(std::move(arrays)));
    out.states.back()->written_by = buffer;
  }
  return out;
}

EncodeResults NNGraph::encode_on_device(const Lowered& lowered, const std::shared_ptr<CommandBuffer>& buffer,
                                        const std::vector<ImageBatch>& sources, std::vector<LabelsBatch>& labels) {
  EncodeTransaction transaction;
  std::vector<NDArray> losses;
  EncodeResults results = state_->nodes->encode_batch({buffer, sources, labels, lowered.shapes}, losses);
  transaction.keep();
  for (size_t i = 0; i < labels.size(); ++i) labels[i].losses = losses[i];
  ++state_->batches;
  return results;
}

Layer* NNGraph::layer_of(const FilterNode& filter) const { return state_->layer_of(filter); }

std::vector<Layer*> NNGraph::layers() const {
  std::vector<Layer*> result;
  for (const auto& layer : state_->layers) result.push_back(layer.get());
  return result;
}

// Encode the parts of the graph as one piece of work that runs them in order. Each part loads the data sources of its
// layers and purges them afterwards.
std::vector<NDArray> NNGraph::encode_parts(const std::shared_ptr<Lowered>& lowered, CommandBuffer& buffer,
                                           std::vector<NDArray> inputs) const {
  std::vector<NDArray> results;
  for (const TensorType& type : lowered->parts.back().executable->target_types())
    results.push_back(NDArray::allocate(type.dtype, type.shape.dims()));
  auto run = [lowered, inputs = std::move(inputs), results]() mutable {
    std::vector<NDArray> values(lowered->value_count);
    for (size_t i = 0; i < inputs.size(); ++i) values[lowered->input_numbers[i]] = std::move(inputs[i]);
    for (Part& part : lowered->parts) {
      std::vector<NDArray> feeds;
      for (size_t value : part.inputs) feeds.push_back(values[value]);
      std::vector<std::unique_ptr<Loaded>> loaded;
      for (Layer* layer : part.layers) {
        loaded.push_back(std::make_unique<Loaded>(*layer->source, layer->who));
        layer->feed(feeds);
      }
      const bool last = &part == &lowered->parts.back();
      std::vector<NDArray> made = last ? results : std::vector<NDArray>(part.outputs.size());
      part.executable->compiled()->run(feeds, made);
      for (const auto& source : loaded) source->purge();
      for (size_t i = 0; !last && i < made.size(); ++i) values[part.outputs[i]] = made[i];
      for (size_t value : part.last_uses) values[value] = {};
    }
  };
  buffer.encode(std::move(run), "NNGraph");
  return results;
}

// Call all self-updating data sources first and adopt their parameters afterwards, so that an exception leaves every
// layer unchanged.
void NNGraph::update_outside(const Lowered& lowered, const std::shared_ptr<CommandBuffer>& buffer,
                             std::vector<NDArray>::const_iterator gradients) {
  std::vector<std::pair<Layer*, StatePtr>> updated;
  for (size_t i = 0; i < lowered.updating.size(); ++i) {
    Layer& layer = *lowered.updating[i];
    std::vector<NamedArray> derived, held;
    for (const std::string& name : lowered.gradients[i]) derived.push_back({name, *gradients++});
    for (const Slot& slot : layer.slots) held.push_back({slot.name, slot.value});
    const auto gradient_state = std::make_shared<ParameterState>(std::move(derived));
    gradient_state->written_by = buffer;
    const auto source_state = std::make_shared<ParameterState>(std::move(held));
    const StatePtr result = layer.source->update(*buffer, gradient_state, source_state);
    if (!result) continue;
    layer.require_fitting(*result);
    updated.emplace_back(&layer, result);
  }
  for (const auto& [layer, result] : updated)
    for (Slot& slot : layer->slots)
      if (const NDArray* array = result->find(slot.name)) slot.value = *array;
}

void NNGraph::reload_from_data_sources() {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::vector<NamedArray>> arrays;
  for (const auto& layer : state_->layers) arrays.push_back(layer->reloaded());
  if (state_->nodes) return state_->nodes->reload(arrays);
  for (size_t i = 0; i < arrays.size(); ++i) state_->layers[i]->take(*state_->on_device, arrays[i]);
}

}  // namespace mpsgraph::nngraph
