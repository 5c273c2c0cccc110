// The parameters of one layer on the device: what Apple's kernels read of the data source, and its updates.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "backends/metal/nngraph/batch.h"
#include "nngraph/layer.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::metal {

// A gradient or a statistic that a kernel has encoded, float32.
struct Derived {
  std::string_view name;
  id<MTLBuffer> buffer;
};

class LayerParameters {
 public:
  LayerParameters(MetalDevice& device, nngraph::Layer& layer, Failures& failures);
  nngraph::Layer& layer;
  Failures& failures;

  // --- for the source that Apple sees ---
  bool load();
  void purge();
  float* array(std::string_view name);  // between load and purge; null: there is none
  // Until forget(), load() does not ask the data source: these are its parameters.
  void give(std::vector<nngraph::NamedArray> arrays) { given_ = std::move(arrays); }
  void forget() { given_.clear(); }
  // Takes parameters of the data source as those to go on with, those that train.
  void take(const std::vector<nngraph::NamedArray>& arrays);

  // --- while a batch is encoded ---
  // Encodes the update of the parameters that are derived, or of the statistics. False: there is none.
  bool update(BatchEncoding& batch, const std::vector<Derived>& derived);
  bool update_statistics(BatchEncoding& batch, const std::vector<Derived>& derived);
  // Where the values are that the next batch reads; `otherwise`, everywhere, where the source has none of that name.
  id<MTLBuffer> updated(BatchEncoding& batch, std::string_view name, float otherwise);
  void keep();     // what the batch has changed
  void discard();

 private:
  bool ask_source(BatchEncoding& batch, const std::vector<Derived>& derived);
  runtime::NDArray copied(BatchEncoding& batch, const Dims& dims, id<MTLBuffer> from, size_t offset);
  const runtime::NDArray& next(const nngraph::Slot& slot) const;

  MetalDevice& device_;
  std::vector<std::vector<runtime::NDArray>> moments_;  // of each slot
  std::vector<nngraph::NamedArray> given_, loaded_;
  nngraph::StatePtr result_;  // of a source that updates itself, in this batch
  bool asked_ = false;
};

}  // namespace mpsgraph::metal
