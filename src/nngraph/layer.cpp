// Conversion of parameters between the layouts of data sources and of the core graph.
#include "nngraph/layer.h"

#include <algorithm>

#include "mpsgraph/core/errors.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

namespace {

Dims contiguous_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Return a dense copy with permuted axes.
NDArray permuted(const NDArray& array, const std::vector<size_t>& order) {
  const NDArray dense = array.contiguous() ? array : array.copy_contiguous();
  const Dims strides = contiguous_strides(dense.dims());
  Dims dims, moved;
  for (size_t axis : order) dims.push_back(dense.dims()[axis]), moved.push_back(strides[axis]);
  return NDArray(dense.buffer(), dense.dtype(), dims, moved, static_cast<size_t>(dense.data() - dense.buffer()->data()))
      .copy_contiguous();
}

NDArray reshaped(const NDArray& dense, const Dims& dims) {
  return NDArray(dense.buffer(), dense.dtype(), dims, contiguous_strides(dims),
                 static_cast<size_t>(dense.data() - dense.buffer()->data()));
}

ConstantPtr constant(const NDArray& dense) {
  return ConstantData::borrow(dense.dtype(), dense.dims(), dense.data(), std::make_shared<NDArray>(dense));
}

Home home_of(const DataSource& source, const Layer::Use& use) {
  if (use.by_device) return Home::device;
  if (use.on_demand && source.on_demand()) return Home::on_demand;
  return use.trains && source.updates() ? Home::fed : Home::variables;
}

}  // namespace

Layer::Layer(std::shared_ptr<DataSource> given, std::string who, const Use& use, Graph& graph)
    : source(std::move(given)),
      who(std::move(who)),
      trains(use.trains),
      home(home_of(*source, use)),
      matrix(use.matrix) {
  Loaded loaded(*source, this->who);
  if (auto* of_convolution = dynamic_cast<ConvolutionSource*>(source.get())) convolution = of_convolution->descriptor();
  if (auto* of_norm = dynamic_cast<NormalizationSource*>(source.get())) normalization = of_norm->descriptor();
  const std::shared_ptr<Optimizer> optimizer = has_optimizer() ? source->optimizer() : nullptr;
  const bool only_looks = home == Home::on_demand || (home == Home::device && source->on_demand());
  for (NamedArray& named : only_looks ? viewed_arrays(*source, this->who) : checked_arrays(*source, this->who)) {
    Slot slot;
    slot.name = named.name;
    slot.trained = trains && named.name != "mean" && named.name != "variance";
    own_dims_.push_back(named.array.dims());
    slot.type = named.array.type();
    if (home == Home::fed || (home == Home::device && !only_looks)) slot.value = named.array;
    if (home == Home::variables) {
      const NDArray core = to_core(slot, named.array);
      slot.variable = graph.add("variable", {}, {{"value", constant(core)}});
      if (optimizer && slot.trained)
        for (size_t i = 0; i < optimizer->moments().size(); ++i)
          slot.moments.push_back(
              graph.add("variable", {}, {{"value", ConstantData::splat(DType::float32, core.dims(), 0.0)}}));
    }
    slots.push_back(std::move(slot));
  }
  loaded.purge();
}

Slot* Layer::find(std::string_view name) {
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

void Layer::require_fitting(ParameterState& updated) const {
  if (updated.ever_written())
    throw GraphError(cat(who,
                         " update() returned a state computed by a batch, such as the gradients of this or another "
                         "batch; return the source state or a state created by the data source"));
  for (const Slot& slot : slots) {
    const NDArray* array = updated.find(slot.name);
    if (!array) continue;
    if (array->dims() != slot.value.dims() || array->dtype() != DType::float32)
      throw ShapeError(
          cat(who, " update() must return ", slot.name, " of type ", slot.value.type(), ", got ", array->type()));
  }
}

NDArray Layer::to_core(const Slot& slot, const NDArray& own) const {
  if (slot.name != "weights") return own;
  const NDArray hwio = permuted(own, {1, 2, 3, 0});
  if (matrix) return reshaped(hwio, {own.elements() / own.dims()[0], own.dims()[0]});
  if (!convolution.depthwise) return hwio;
  const Dims& d = own.dims();
  return reshaped(hwio, {d[1], d[2], convolution.input_feature_channels, d[0] / convolution.input_feature_channels});
}

NDArray Layer::from_core(const Slot& slot, const NDArray& core) const {
  if (slot.name != "weights") return core;
  const Dims& own = slot.type.shape.dims();
  return permuted(reshaped(core, {own[1], own[2], own[3], own[0]}), {3, 0, 1, 2});
}

std::vector<NamedArray> Layer::reloaded() {
  if (home == Home::on_demand) return {};  // on-demand parameters are reloaded for each batch anyway
  Loaded loaded(*source, who);
  std::vector<NamedArray> arrays = checked_arrays(*source, who);
  const bool same = std::equal(arrays.begin(), arrays.end(), slots.begin(), slots.end(),
                               [](const NamedArray& a, const Slot& slot) { return a.name == slot.name; });
  if (!same)
    throw GraphError(cat(who, ": its data source must provide the same parameters as when the graph was created"));
  for (size_t i = 0; i < slots.size(); ++i)
    if (arrays[i].array.dims() != own_dims_[i])
      throw ShapeError(cat(who, ": ", slots[i].name, " must have shape ", to_string(own_dims_[i]),
                           " as when the graph was created, got ", to_string(arrays[i].array.dims())));
  loaded.purge();
  return arrays;
}

void Layer::take(runtime::DeviceGraph& on_device, const std::vector<NamedArray>& arrays) {
  if (home == Home::on_demand) return;
  std::vector<std::pair<Tensor*, NDArray>> values;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].variable)
      values.emplace_back(slots[i].variable, to_core(slots[i], arrays[i].array));
    else
      slots[i].value = arrays[i].array;
  }
  on_device.set_variables(values);
}

void Layer::feed(std::vector<NDArray>& feeds) const {
  const std::vector<NamedArray> arrays = viewed_arrays(*source, who);
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool same = i < arrays.size() && arrays[i].name == slots[i].name && arrays[i].array.type() == slots[i].type;
    if (!same)
      throw GraphError(cat(who, ": its data source must provide the same parameters as when the graph was created"));
    const NDArray& array = arrays[i].array;
    feeds.push_back(array.contiguous() ? array : array.copy_contiguous());
  }
}

void Layer::store(runtime::DeviceGraph* on_device) {
  if (!has_optimizer()) return;
  std::vector<Tensor*> variables;
  for (const Slot& slot : slots)
    if (slot.variable) variables.push_back(slot.variable);
  const std::vector<NDArray> values =
      variables.empty() ? std::vector<NDArray>() : on_device->variable_values(variables);
  std::vector<NamedArray> arrays;
  size_t next = 0;
  for (const Slot& slot : slots)
    arrays.push_back({slot.name, slot.variable ? from_core(slot, values[next++]) : slot.value.copy_contiguous()});
  source->store(std::move(arrays));
}

Tensor* as_operand(Builder& b, const Layer& layer, const Slot& slot, Tensor* fed) {
  fed = b.cast(fed, DType::float32);
  if (slot.name != "weights") return fed;
  Tensor* hwio = b.transpose(fed, {1, 2, 3, 0});
  if (!layer.convolution.depthwise) return hwio;
  const Dims& d = slot.type.shape.dims();
  const int64_t inputs = layer.convolution.input_feature_channels;
  return b.reshape(hwio, {d[1], d[2], inputs, d[0] / inputs});
}

Tensor* as_own(Builder& b, const Layer& layer, const Slot& slot, Tensor* gradient) {
  if (slot.name != "weights") return gradient;
  const Dims& d = slot.type.shape.dims();
  const bool hwio = gradient->shape().dims().size() == 4 && !layer.convolution.depthwise;
  if (!hwio) gradient = b.reshape(gradient, {d[1], d[2], d[3], d[0]});
  return b.transpose(gradient, {3, 0, 1, 2});
}

}  // namespace mpsgraph::nngraph
