// Lowers an NNGraph: each forward filter according to its definition, and each gradient filter as the derivative of its
// lowered forward filter. Losses, exported images, and parameter updates become targets.
#include "nngraph/lowering.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mpsgraph/core/gradients.h"
#include "mpsgraph/runtime/inference.h"
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

using runtime::Feed;

namespace {

TensorType float_type(const Dims& dims) { return {DType::float32, Shape(dims)}; }

}  // namespace

// Implements NNGraph::lower. Each instance is used once.
class Lowerer {
 public:
  Lowerer(const NNGraph& graph, NNGraph::State& state, NNGraph::Lowered& result, const std::vector<FilterPtr>& losses)
      : graph_(graph), state_(state), result_(result), losses_(losses), b_(*state.graph) {}

  void run(const std::vector<ImageBatch>& sources, const std::vector<LabelsBatch>& labels) {
    std::vector<TensorType> types;
    for (const ImageBatch& source : sources) types.push_back(source.array.type());
    feed_images(types);
    read_parameters();
    for (const FilterPtr& filter : graph_.filters()) {
      if (loads_on_demand(*filter)) cut(*filter);
      lower(*filter, labels);
      ++lowered_count_;
    }
    for (const auto& [image, tensor] : images_) result_.shapes[image] = tensor->shape().dims();
    if (state_.nodes) return;  // the device computes the nodes itself
    update();
    compile();
  }

  // Build only the forward computation, in the core graph that all input sizes share, and return its inputs and
  // outputs.
  runtime::PackageContents model(const std::vector<TensorType>& types) {
    modelling_ = true;
    feed_images(types);
    read_parameters();
    for (const FilterPtr& filter : graph_.filters()) {
      if (loads_on_demand(*filter)) hold(*filter);
      lower(*filter, {});
    }
    runtime::PackageContents contents{state_.graph, {}, {}, {}, {}};
    const auto add = [](runtime::NamedTensors& tensors, const ImageNode& image, std::string_view what, Tensor* tensor) {
      const std::string name = image.handle.empty() ? std::string(what) : image.handle;
      const auto has = [&](const std::string& taken) {
        return std::any_of(tensors.begin(), tensors.end(), [&](const auto& pair) { return pair.first == taken; });
      };
      std::string free = name;
      for (size_t i = 1; has(free); ++i) free = cat(name, "_", i);
      tensors.emplace_back(free, tensor);
    };
    for (size_t i = 0; i < types.size(); ++i)
      add(contents.inputs, *graph_.source_images()[i], "images", image_feeds_[i]);
    for (const ImagePtr& image : graph_.result_images()) add(contents.outputs, *image, "result", stored(*image));
    for (const ImagePtr& image : graph_.intermediate_images()) add(contents.outputs, *image, "image", stored(*image));
    return contents;
  }

 private:
  Tensor* placeholder(const TensorType& type) {
    Tensor* tensor = b_.graph().add("placeholder", {}, {{"type", type}});
    feeds_.emplace_back(tensor, type);
    return tensor;
  }

  void feed_images(const std::vector<TensorType>& types) {
    for (size_t i = 0; i < types.size(); ++i) {
      image_feeds_.push_back(placeholder(types[i]));
      Tensor* image = b_.cast(image_feeds_.back(), DType::float32);
      if (types[i].dtype == DType::uint8) image = b_.mul(image, 1.0 / 255);
      if (types[i].dtype == DType::uint16) image = b_.mul(image, 1.0 / 65535);
      images_[graph_.source_images()[i].get()] = image;
    }
    result_.image_count = types.size();
  }

  void read_parameters() {
    for (const auto& layer : state_.layers) {
      if (layer->home == Home::on_demand) continue;
      operands_[layer.get()];  // operator[] creates an entry even for a layer without parameters
      for (size_t i = 0; i < layer->slots.size(); ++i) {
        const Slot& slot = layer->slots[i];
        Tensor* operand;
        if (slot.variable) {
          operand = b_.graph().add("read", {slot.variable});
        } else {
          operand = as_operand(b_, *layer, slot, placeholder(slot.type));
          result_.parameters.push_back({layer.get(), i});
        }
        operands_[layer.get()].emplace_back(slot.name, operand);
      }
    }
  }

  // --- parts, for parameters that are loaded on demand ---------------------------------------------------------------

  bool loads_on_demand(const FilterNode& filter) const {
    const Layer* layer = filter.parameters() ? state_.layer_of(filter) : nullptr;
    return layer && layer->home == Home::on_demand;
  }

  // Start a new part before filter `next`, so that its parameters can be loaded on demand. The parameters are the last
  // feeds of the new part. Values that later filters read become results of the part that ends here.
  void cut(const FilterNode& next) {
    Layer* layer = state_.layer_of(next);
    if (part_feeds_ > 0 || lowered_count_ > 0) end_part(live_images());
    part_.layers = {layer};
    auto& operands = operands_[layer] = {};
    for (const Slot& slot : layer->slots) {
      Tensor* fed = b_.graph().add("placeholder", {}, {{"type", slot.type}});
      part_parameters_.emplace_back(fed, slot.type);
      operands.emplace_back(slot.name, as_operand(b_, *layer, slot, fed));
    }
    ++part_feeds_;
  }

  // Return the images that later filters, results, or exports read, and all losses so far.
  std::vector<Tensor**> live_images() {
    std::set<const ImageNode*> read;
    for (size_t i = lowered_count_; i < graph_.filters().size(); ++i)
      for (const ImagePtr& source : graph_.filters()[i]->sources()) read.insert(source.get());
    for (const ImagePtr& image : graph_.result_images()) read.insert(image.get());
    for (const ImagePtr& image : graph_.intermediate_images()) read.insert(image.get());
    std::vector<Tensor**> live;
    for (auto& [image, tensor] : images_)
      if (read.contains(image)) live.push_back(&tensor);
    for (Tensor*& loss : lost_) live.push_back(&loss);
    for (auto& [filter, arrays] : left_)
      for (auto& [name, array] : arrays) live.push_back(&array);
    return live;
  }

  // Add the parameters of an on-demand data source to the graph as constants, for export.
  void hold(const FilterNode& filter) {
    Layer* layer = state_.layer_of(filter);
    if (operands_.contains(layer)) return;
    auto& operands = operands_[layer];
    Loaded loaded(*layer->source, layer->who);
    for (const NamedArray& named : checked_arrays(*layer->source, layer->who)) {
      const runtime::NDArray dense = named.array.copy_contiguous();
      Tensor* value =
          b_.graph().add("constant", {}, {{"value", ConstantData::copy(dense.dtype(), dense.dims(), dense.data())}});
      operands.emplace_back(named.name, as_operand(b_, *layer, *layer->find(named.name), value));
    }
    loaded.purge();
  }

  size_t number_of(Tensor* tensor) { return numbers_.emplace(tensor, numbers_.size()).first->second; }

  void end_part(const std::vector<Tensor**>& live) {
    std::map<Tensor*, Tensor*> handed_on;
    std::vector<Tensor*> targets;
    for (Tensor** tensor : live) {
      if (is_fed(*tensor)) continue;
      Tensor*& fed = handed_on[*tensor];
      if (!fed) {
        targets.push_back(*tensor);
        fed = b_.graph().add("placeholder", {}, {{"type", (*tensor)->type}});
      }
    }
    finish_part(targets);
    for (Tensor* target : targets) {
      Tensor* fed = handed_on.at(target);
      feeds_.emplace_back(fed, fed->type);
      result_.parts.back().outputs.push_back(number_of(fed));
    }
    for (Tensor** tensor : live)
      if (const auto next = handed_on.find(*tensor); next != handed_on.end()) *tensor = next->second;
  }

  bool is_fed(const Tensor* tensor) const { return tensor->operation->is("placeholder"); }

  // Compile the operations that lead to the targets, with the feeds that they read.
  void finish_part(const std::vector<Tensor*>& targets) {
    std::set<const Operation*> needed;
    std::vector<const Tensor*> stack(targets.begin(), targets.end());
    while (!stack.empty()) {
      const Operation* operation = stack.back()->operation;
      stack.pop_back();
      if (needed.insert(operation).second)
        stack.insert(stack.end(), operation->inputs.begin(), operation->inputs.end());
    }
    std::vector<Feed> feeds;
    for (const Feed& feed : feeds_) {
      if (!needed.contains(feed.first->operation)) continue;
      feeds.push_back(feed);
      part_.inputs.push_back(number_of(feed.first));
    }
    feeds.insert(feeds.end(), part_parameters_.begin(), part_parameters_.end());
    part_.executable = state_.on_device->compile(feeds, targets);
    result_.parts.push_back(std::exchange(part_, {}));
    part_parameters_.clear();
  }

  // For each part, find the values that no later part reads. They can be released after the part has run.
  void find_last_uses() {
    std::set<size_t> later;
    for (size_t i = result_.parts.size(); i-- > 0;) {
      Part& part = result_.parts[i];
      for (size_t value : part.inputs)
        if (later.insert(value).second) part.last_uses.push_back(value);
    }
    for (const auto* fed : {&image_feeds_, &label_feeds_, &seed_feeds_})
      for (Tensor* tensor : *fed) result_.input_numbers.push_back(number_of(tensor));
    result_.value_count = numbers_.size();
  }

  void lower(const FilterNode& filter, const std::vector<LabelsBatch>& labels) {
    b_.graph().set_location(filter.location());
    Tensor* image = filter.is_gradient() ? lower_gradient(filter) : lower_forward(filter, labels);
    const ChannelFormat format =
        filter.result().format == ChannelFormat::none ? graph_.format() : filter.result().format;
    if (format == ChannelFormat::float16) image = b_.cast(b_.cast(image, DType::float16), DType::float32);
    images_[&filter.result()] = image;
  }

  Tensor* lower_forward(const FilterNode& filter, const std::vector<LabelsBatch>& labels) {
    auto& forward = forwards_.emplace(&filter, Forward{Lowering(b_, filter), nullptr}).first->second;
    Lowering& l = forward.lowering;
    l.training = graph_.has_gradient(filter);
    l.layer = state_.layer_of(filter);
    if (filter.source_state() && filter.source_state()->producer)
      l.undone = &forwards_.at(filter.source_state()->producer).lowering;
    // Identity operations separate the sources and parameters of this filter from the rest of the graph, so that
    // differentiation stops here. This matters if a filter has several sources, because one source may be computed from
    // another, and if filters share a layer, because its parameters may affect the inputs of a later filter.
    const auto own = [&](Tensor* tensor, bool apart) { return apart ? b_.unary("identity", tensor) : tensor; };
    for (const ImagePtr& source : filter.sources())
      l.sources.push_back(own(images_.at(source.get()), l.training && filter.sources().size() > 1));
    if (l.layer)
      for (const auto& [name, tensor] : operands_.at(l.layer))
        l.parameters[name] = own(as_computed(*l.layer, name, tensor), l.training && is_shared(*l.layer));
    const auto loss = std::find_if(losses_.begin(), losses_.end(), [&](const auto& p) { return p.get() == &filter; });
    if (loss != losses_.end()) {
      const auto index = static_cast<size_t>(loss - losses_.begin());
      l.fed = [this, index, &labels](std::string_view name) -> Tensor* {
        const bool weights = name == "weights";
        const runtime::NDArray& array = weights ? labels[index].weights : labels[index].labels;
        if (!array.valid()) return nullptr;
        result_.labels.emplace_back(index, weights);
        label_feeds_.push_back(placeholder(array.type()));
        return label_feeds_.back();
      };
    }
    l.seed = [this, &filter] {
      if (modelling_)
        throw UnsupportedError(cat("[", filter.title(),
                                   "] cannot be exported: it draws random numbers, which need a state that is fed with "
                                   "each batch",
                                   filter.where()));
      result_.seeds.push_back(filter.attributes().integer("seed"));
      seed_feeds_.push_back(placeholder({DType::int32, Shape{7}}));
      return seed_feeds_.back();
    };
    forward.image = filter.definition().lower(l);
    if (filter.definition().takes_labels()) lost_.push_back(l.state.at("loss"));
    if (filter.state().export_from_graph)
      for (std::string_view name : filter.definition().left)
        left_[&filter].emplace_back(name, l.state.find(name)->second);
    return forward.image;
  }

  // Round the weights to the dtype of the kernel's weights. The cast back to float32 passes the gradient through, so
  // the stored, unrounded weights are updated with the gradient of the rounded ones.
  Tensor* as_computed(const Layer& layer, std::string_view name, Tensor* parameter) {
    const DType dtype = layer.convolution.kernel_weights;
    return name == "weights" ? b_.cast(b_.cast(parameter, dtype), DType::float32) : parameter;
  }

  bool is_shared(const Layer& layer) const {
    return std::count_if(graph_.filters().begin(), graph_.filters().end(), [&](const FilterPtr& filter) {
             return !filter->is_gradient() && state_.layer_of(*filter) == &layer;
           }) > 1;
  }

  Tensor* lower_gradient(const FilterNode& filter) {
    Forward& forward = forwards_.at(filter.forward().get());
    Lowering& l = forward.lowering;
    Tensor* incoming = images_.at(filter.sources()[0].get());
    if (incoming->shape() != forward.image->shape())
      throw ShapeError(cat("[", filter.title(), "] the incoming gradient must have shape ", forward.image->shape(),
                           " like the result of ", filter.forward()->title(), ", got ", incoming->shape(),
                           filter.where()));
    const size_t i = filter.forward_source();
    if (filter.definition().gradient && !filter.parameters()) return filter.definition().gradient(l, incoming, i);
    std::vector<Tensor*> with_respect_to{l.sources[i]};
    std::vector<Slot*> slots;
    Layer* layer = filter.parameters() ? state_.layer_of(filter) : nullptr;
    if (layer && layer->trains)
      for (Slot& slot : layer->slots) {
        if (!slot.trained) continue;
        slots.push_back(&slot);
        with_respect_to.push_back(l.parameter(slot.name));
      }
    const std::vector<Tensor*> found = gradients(forward.image, with_respect_to, incoming);
    for (size_t s = 0; s < slots.size(); ++s) {
      Tensor*& sum = parameter_gradients_[slots[s]];
      sum = sum ? b_.add(sum, found[1 + s]) : found[1 + s];
      if (filter.forward()->state().export_from_graph)
        left_[filter.forward().get()].emplace_back(slots[s]->name, as_own(b_, *layer, *slots[s], found[1 + s]));
    }
    if (layer && layer->source->kind() == DataSource::Kind::batch_normalization) {
      statistics_[layer] = &l.state;
      if (filter.forward()->state().export_from_graph)
        for (std::string_view name : {"mean", "variance"})
          left_[filter.forward().get()].emplace_back(name, flat(l.state.find(name)->second));
    }
    return found[0];
  }

  // Add the parameter updates: assignments for built-in optimizers, and gradients as targets for self-updating sources.
  void update() {
    for (const auto& layer : state_.layers) {
      if (!layer->trains) continue;
      if (layer->home == Home::fed)
        update_outside(*layer);
      else if (layer->has_optimizer())
        update_inside(*layer, layer->source->optimizer());
    }
  }

  void update_inside(Layer& layer, const std::shared_ptr<Optimizer>& optimizer) {
    Tensor* rate = rate_of(optimizer);
    const auto assign = [&](Tensor* variable, Tensor* value) {
      operations_.push_back(b_.graph().create("assign", {variable, value}));
    };
    for (Slot& slot : layer.slots) {
      const auto gradient = parameter_gradients_.find(&slot);
      if (gradient == parameter_gradients_.end()) continue;
      std::vector<Tensor*> moments;
      for (Tensor* moment : slot.moments) moments.push_back(b_.graph().add("read", {moment}));
      Tensor* values = optimizer->lower(b_, operand(layer, slot.name), gradient->second, moments, rate);
      assign(slot.variable, values);
      for (size_t i = 0; i < moments.size(); ++i) assign(slot.moments[i], moments[i]);
    }
    const auto batch = statistics_.find(&layer);
    if (batch == statistics_.end()) return;
    const double keep = dynamic_cast<NormalizationSource&>(*layer.source).momentum();
    for (std::string_view name : {"mean", "variance"}) {
      Slot* slot = layer.find(name);
      if (!slot) continue;
      Tensor* moving = operand(layer, slot->name);
      Tensor* now = b_.reshape_like(batch->second->find(name)->second, moving);
      Tensor* added = b_.mul(now, 1 - keep);
      assign(slot->variable, b_.add(b_.mul(moving, keep), added));
    }
  }

  void update_outside(Layer& layer) {
    std::vector<std::string> names;
    for (Slot& slot : layer.slots) {
      const auto gradient = parameter_gradients_.find(&slot);
      if (gradient == parameter_gradients_.end()) continue;
      names.push_back(slot.name);
      outside_.push_back(as_own(b_, layer, slot, gradient->second));
    }
    const auto batch = statistics_.find(&layer);
    if (batch != statistics_.end())
      for (std::string_view name : {"mean", "variance"}) {
        Tensor* now = batch->second->find(name)->second;
        names.emplace_back(name);
        outside_.push_back(flat(now));
      }
    result_.updating.push_back(&layer);
    result_.gradients.push_back(std::move(names));
  }

  Tensor* flat(Tensor* x) { return b_.reshape(x, Ints{x->shape().elements()}); }

  Tensor* operand(const Layer& layer, std::string_view name) {
    for (const auto& [known, tensor] : operands_.at(&layer))
      if (known == name) return tensor;
    return nullptr;
  }

  Tensor* rate_of(const std::shared_ptr<Optimizer>& optimizer) {
    const auto found = std::find(result_.rates.begin(), result_.rates.end(), optimizer);
    if (found != result_.rates.end()) return rates_[static_cast<size_t>(found - result_.rates.begin())];
    result_.rates.push_back(optimizer);
    rates_.push_back(b_.graph().add("placeholder", {}, {{"type", float_type({})}}));
    return rates_.back();
  }

  Tensor* stored(const ImageNode& image) {
    const ChannelFormat format = image.format == ChannelFormat::none ? graph_.format() : image.format;
    return format == ChannelFormat::float16 ? b_.cast(images_.at(&image), DType::float16) : images_.at(&image);
  }

  void compile() {
    std::vector<Tensor*> targets;
    for (size_t i = 0; i < graph_.result_images().size(); ++i) {
      if (!graph_.results_are_needed(i)) continue;
      result_.results.push_back(i);
      targets.push_back(stored(*graph_.result_images()[i]));
    }
    for (const ImagePtr& image : graph_.intermediate_images()) targets.push_back(stored(*image));
    targets.insert(targets.end(), lost_.begin(), lost_.end());
    targets.insert(targets.end(), outside_.begin(), outside_.end());
    result_.loss_count = lost_.size();
    for (const FilterPtr& filter : graph_.state_exports()) {
      result_.left.emplace_back();
      for (const auto& [name, array] : left_[filter.get()]) {
        result_.left.back().push_back(name);
        targets.push_back(array);
      }
    }
    if (part_feeds_ > 0) {
      finish_part(targets);
      find_last_uses();
      return;
    }
    for (Tensor* rate : rates_) feeds_.emplace_back(rate, float_type({}));
    order_feeds();
    result_.executable = state_.on_device->compile(feeds_, targets, operations_);
  }

  // Move the random states, which are the only int32 feeds, behind all other feeds.
  void order_feeds() {
    std::stable_partition(feeds_.begin(), feeds_.end(),
                          [](const Feed& feed) { return feed.second.dtype != DType::int32; });
  }

  struct Forward {
    Lowering lowering;
    Tensor* image;
  };
  const NNGraph& graph_;
  NNGraph::State& state_;
  NNGraph::Lowered& result_;
  const std::vector<FilterPtr>& losses_;
  Builder b_;
  std::vector<Feed> feeds_;
  std::map<const ImageNode*, Tensor*> images_;
  std::map<const FilterNode*, Forward> forwards_;
  std::map<const Layer*, std::vector<std::pair<std::string, Tensor*>>> operands_;
  std::map<const Slot*, Tensor*> parameter_gradients_;
  std::map<const Layer*, std::map<std::string, Tensor*, std::less<>>*> statistics_;
  std::vector<Tensor*> image_feeds_, label_feeds_, seed_feeds_;
  std::vector<Tensor*> lost_, outside_, rates_;
  std::map<const FilterNode*, std::vector<std::pair<std::string, Tensor*>>> left_;  // tensors of each exported state
  std::vector<Operation*> operations_;
  size_t lowered_count_ = 0, part_feeds_ = 0;
  bool modelling_ = false;
  Part part_;
  std::vector<Feed> part_parameters_;
  std::map<const Tensor*, size_t> numbers_;  // index of each value that is passed between parts
};

std::shared_ptr<NNGraph::Lowered> NNGraph::lower(const std::vector<ImageBatch>& sources,
                                                 const std::vector<LabelsBatch>& labels) {
  std::vector<int64_t> key{static_cast<int64_t>(format_)};
  const auto add = [&](const runtime::NDArray& array) {
    key.push_back(array.valid() ? static_cast<int64_t>(array.dtype()) : -1);
    if (array.valid()) key.insert(key.end(), array.dims().begin(), array.dims().end());
  };
  for (const ImageBatch& source : sources) add(source.array);
  for (const LabelsBatch& batch : labels) add(batch.labels), add(batch.weights);
  std::shared_ptr<Lowered>& entry = state_->lowered[key];
  if (!entry) {
    auto lowered = std::make_shared<Lowered>();
    Lowerer(*this, *state_, *lowered, losses_).run(sources, labels);
    entry = std::move(lowered);
  }
  return entry;
}

runtime::PackageContents NNGraph::model(const std::vector<TensorType>& images) {
  if (state_->nodes)
    throw UnsupportedError(cat("[NNGraph] export needs a core graph, but device ", device_->name(),
                               " runs nodes natively; use device=\"cpu\""));
  if (!derived_.empty() || !losses_.empty())
    throw GraphError(
        "[NNGraph] only an inference graph can be exported, but this one has gradient filters or takes labels");
  if (images.size() != inputs_.size())
    throw GraphError(cat("[NNGraph] the number of types must be ", inputs_.size(),
                         " (one per batch of source images), got ", images.size()));
  for (const TensorType& type : images)
    if (!type.shape.ranked() || type.shape.rank() != 4 || type.shape[1] < 1 || type.shape[2] < 1 || type.shape[3] < 1)
      throw ShapeError(
          cat("[NNGraph] images must have shape [images, height, width, channels], where only the first dimension may "
              "be -1 (dynamic), got ",
              type.shape));
  const std::lock_guard lock(state_->mutex);
  Lowered lowered;
  const runtime::PackageContents contents = Lowerer(*this, *state_, lowered, losses_).model(images);
  return runtime::optimize_for_inference(contents, state_->on_device.get());
}

}  // namespace mpsgraph::nngraph
