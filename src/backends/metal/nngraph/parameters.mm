// LayerParameters: values, moments, and gradients are pooled buffers, so kernels, optimizers, and the host share the
// same bytes.
#include "backends/metal/nngraph/parameters.h"

#include <algorithm>
#include <cstring>

#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/images.h"
#include "backends/metal/nngraph/optimizers.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

using nngraph::Layer;
using nngraph::NamedArray;
using nngraph::Slot;
using runtime::NDArray;

namespace {

NDArray filled(MetalDevice& device, const Dims& dims, float value) {
  NDArray array = device.allocate(DType::float32, dims);
  std::fill_n(reinterpret_cast<float*>(array.data()), array.elements(), value);
  return array;
}

NDArray on_device(MetalDevice& device, const NDArray& values) {
  NDArray array = device.allocate(DType::float32, values.dims());
  array.copy_from(values);
  return array;
}

void copy(BatchEncoding& batch, id<MTLBuffer> from, size_t offset, const BufferView& to, size_t bytes) {
  id<MTLBlitCommandEncoder> blit = [batch.commands blitCommandEncoder];
  [blit copyFromBuffer:from sourceOffset:offset toBuffer:to.buffer destinationOffset:to.offset size:bytes];
  [blit endEncoding];
}

}  // namespace

LayerParameters::LayerParameters(MetalDevice& device, Layer& layer, Failures& failures)
    : layer(layer), failures(failures), device_(device) {
  const bool changes = layer.updates_itself() || layer.has_optimizer();
  for (Slot& slot : layer.slots) {
    if (slot.value.valid()) given_.push_back({slot.name, slot.value});
    slot.value = changes ? on_device(device, slot.value) : NDArray();
    moments_.emplace_back();
    if (!slot.trained || !layer.has_optimizer()) continue;
    for (size_t i = 0; i < layer.source->optimizer()->moments().size(); ++i)
      moments_.back().push_back(filled(device, slot.value.dims(), 0));
  }
}

// --- parameters that Apple's classes read ----------------------------------------------------------------------------

bool LayerParameters::load() {
  return failures.run([&] {
    if (!given_.empty() || layer.slots.empty()) {
      loaded_ = given_;
      return;
    }
    nngraph::Loaded source(*layer.source, layer.who);
    loaded_ = nngraph::checked_arrays(*layer.source, layer.who);
    source.purge();
  });
}

void LayerParameters::purge() { loaded_.clear(); }

float* LayerParameters::array(std::string_view name) {
  for (const NamedArray& named : loaded_)
    if (named.name == name) return reinterpret_cast<float*>(named.array.data());
  return nullptr;
}

void LayerParameters::take(const std::vector<NamedArray>& arrays) {
  for (size_t i = 0; i < layer.slots.size(); ++i)
    if (layer.slots[i].value.valid()) layer.slots[i].value = on_device(device_, arrays[i].array);
}

// --- updates ---------------------------------------------------------------------------------------------------------

bool LayerParameters::update(BatchEncoding& batch, const std::vector<Derived>& derived) {
  if (layer.updates_itself()) return ask_source(batch, derived);
  const std::shared_ptr<nngraph::Optimizer> optimizer = layer.has_optimizer() ? layer.source->optimizer() : nullptr;
  if (!optimizer) return false;
  for (size_t i = 0; i < layer.slots.size(); ++i) {
    const Slot& slot = layer.slots[i];
    const auto found = std::ranges::find(derived, slot.name, &Derived::name);
    if (!slot.trained || found == derived.end()) continue;
    const int64_t length = slot.value.elements();
    VectorStep step;
    BufferView gradient;
    gradient.buffer = found->buffer;
    step.gradient = vector_of(gradient, length);
    step.values = step.result = vector_of(batch.uses.view(slot.value, Access::both), length);
    for (const NDArray& moment : moments_[i])
      step.moments.push_back(vector_of(batch.uses.view(moment, Access::both), length));
    encode_step(batch.commands, optimizer_kernel(device_.device, *optimizer), step);
  }
  return true;
}

bool LayerParameters::update_statistics(BatchEncoding& batch, const std::vector<Derived>& derived) {
  if (layer.updates_itself()) return ask_source(batch, derived);
  if (!layer.has_optimizer()) return false;
  const double keep = dynamic_cast<nngraph::NormalizationSource&>(*layer.source).momentum();
  for (const Derived& now : derived) {
    const Slot* slot = layer.find(now.name);
    if (!slot || slot->trained) continue;
    BufferView statistic;
    statistic.buffer = now.buffer;
    const int64_t length = slot->value.elements();
    encode_moving_average(device_.device, batch.commands, keep, vector_of(statistic, length),
                          vector_of(batch.uses.view(slot->value, Access::both), length));
  }
  return true;
}

NDArray LayerParameters::copied(BatchEncoding& batch, const Dims& dims, id<MTLBuffer> from, size_t offset) {
  NDArray array = device_.allocate(DType::float32, dims);
  copy(batch, from, offset, batch.uses.view(array, Access::writes), array.bytes());
  return array;
}

// Batch normalization requests parameters and statistics in two calls, in an undocumented order, but the data source's
// update may only be called once per batch. The result of the update is therefore kept for the second request.
bool LayerParameters::ask_source(BatchEncoding& batch, const std::vector<Derived>& derived) {
  if (asked_) return result_ != nullptr;
  asked_ = true;
  std::vector<NamedArray> gradients, held;
  for (const Derived& each : derived) {
    const Slot* slot = layer.find(each.name);
    const bool statistic = each.name == "mean" || each.name == "variance";
    if (!statistic && (!slot || !slot->trained)) continue;
    const Dims dims = slot ? slot->value.dims() : Dims{layer.normalization.number_of_feature_channels};
    gradients.push_back({std::string(each.name), copied(batch, dims, each.buffer, 0)});
  }
  for (const Slot& slot : layer.slots) held.push_back({slot.name, slot.value});
  const auto gradient_state = std::make_shared<nngraph::ParameterState>(std::move(gradients));
  gradient_state->written_by = batch.buffer.weak_from_this();
  const auto source_state = std::make_shared<nngraph::ParameterState>(std::move(held));
  const runtime::CommandBuffer::Mark before = batch.buffer.mark();
  const nngraph::StatePtr result = layer.source->update(batch.buffer, gradient_state, source_state);
  if (batch.buffer.mark().commands != before.commands)
    throw UnsupportedError(cat(layer.who,
                               " update() may only encode optimizer steps on the Metal device, because other work "
                               "would run after the batch instead of within it; use device=\"cpu\""));
  if (result) layer.require_fitting(*result);
  result_ = result;
  return result_ != nullptr;
}

const NDArray& LayerParameters::next(const Slot& slot) const {
  const NDArray* array = result_ ? result_->find(slot.name) : nullptr;
  return array ? *array : slot.value;
}

id<MTLBuffer> LayerParameters::updated(BatchEncoding& batch, std::string_view name, float otherwise) {
  const Slot* slot = layer.find(name);
  if (!slot) {
    const NDArray everywhere = filled(device_, {layer.normalization.number_of_feature_channels}, otherwise);
    return batch.uses.view(everywhere, Access::reads).buffer;
  }
  const NDArray& array = next(*slot);
  const BufferView view = batch.uses.view(array, Access::reads);
  if (view.offset == 0) return view.buffer;
  // Normalization states do not support buffer offsets, so the values are copied to the start of a buffer.
  return batch.uses.view(copied(batch, array.dims(), view.buffer, view.offset), Access::both).buffer;
}

void LayerParameters::keep() {
  for (Slot& slot : layer.slots)
    if (slot.value.valid()) slot.value = next(slot);
  discard();
}

void LayerParameters::discard() {
  result_ = nullptr;
  asked_ = false;
}

}  // namespace mpsgraph::metal
