// LayerParameters: the parameters of one layer on the device, as Apple's kernels read them from the data source, and
// their updates.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "backends/metal/nngraph/batch.h"
#include "nngraph/layer.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::metal {

// A gradient or statistic, in float32, that an encoded kernel computes for a layer's parameter.
struct Derived {
  std::string_view name;
  id<MTLBuffer> buffer;
};

class LayerParameters {
 public:
  LayerParameters(MetalDevice& device, nngraph::Layer& layer, Failures& failures);
  nngraph::Layer& layer;
  Failures& failures;

  // --- for the data source object that Apple's classes use ---
  bool load();
  void purge();
  // Pointer to the parameter of this name, valid between load() and purge(); null if there is no such parameter.
  float* array(std::string_view name);
  // Set the parameters that load() uses instead of loading the data source, until forget() is called.
  void give(std::vector<nngraph::NamedArray> arrays) { given_ = std::move(arrays); }
  void forget() { given_.clear(); }
  // Replace the parameters of a trained layer with those of the data source.
  void take(const std::vector<nngraph::NamedArray>& arrays);

  // --- while a batch is encoded ---
  // Encode the update of the parameters with the given gradients, or of the moving statistics with the batch's
  // statistics. Returns false if there is no update.
  bool update(BatchEncoding& batch, const std::vector<Derived>& derived);
  bool update_statistics(BatchEncoding& batch, const std::vector<Derived>& derived);
  // Return the buffer with the values that the next batch reads. If the source has no parameter of that name, the
  // buffer is filled with `otherwise`.
  id<MTLBuffer> updated(BatchEncoding& batch, std::string_view name, float otherwise);
  void keep();     // adopts the changes of the batch
  void discard();

 private:
  bool ask_source(BatchEncoding& batch, const std::vector<Derived>& derived);
  runtime::NDArray copied(BatchEncoding& batch, const Dims& dims, id<MTLBuffer> from, size_t offset);
  const runtime::NDArray& next(const nngraph::Slot& slot) const;

  MetalDevice& device_;
  std::vector<std::vector<runtime::NDArray>> moments_;  // moments of the optimizer, with one entry per slot
  std::vector<nngraph::NamedArray> given_, loaded_;
  nngraph::StatePtr result_;  // result of a self-updating source for this batch
  bool asked_ = false;
};

}  // namespace mpsgraph::metal
