// StoredWeights: maps its file only as long as the parameters are needed.
#include "nngraph/stored_weights.h"

#include <cstdint>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/errors.h"
#include "runtime/safetensors.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

StoredWeights::StoredWeights(std::filesystem::path path, ConvolutionDescriptor descriptor, std::string weights,
                             std::string biases, std::string_view layout, std::string label)
    : path_(std::move(path)),
      descriptor_(std::move(descriptor)),
      weights_(std::move(weights)),
      biases_(std::move(biases)),
      label_(label.empty() ? weights_ : std::move(label)) {
  if (layout == "OHWI")
    order_ = {0, 1, 2, 3};
  else if (layout == "OIHW")
    order_ = {0, 2, 3, 1};
  else if (layout == "HWIO")
    order_ = {3, 0, 1, 2};
  else
    throw GraphError(cat("unknown layout '", std::string(layout), "'; must be one of OHWI, OIHW, HWIO"));
}

bool StoredWeights::load() {
  const auto tensors = runtime::read_safetensors(runtime::MappedFile::open(path_, SIZE_MAX), path_);
  std::vector<NamedArray> arrays;
  const auto take = [&](const char* name, const std::string& stored, const std::vector<size_t>& order) {
    const auto found = tensors.find(stored);
    if (found == tensors.end()) {
      std::string names;
      for (const auto& [known, value] : tensors) names += cat(names.empty() ? "" : ", ", known);
      throw PackageError(cat(path_.string(), " has no tensor '", stored, "'; it has ", names));
    }
    const ConstantPtr& value = found->second;
    const Dims& own = value->dims();
    if (own.size() != order.size())
      throw ShapeError(cat("tensor '", stored, "' in ", path_.string(), " must have ", order.size(),
                           " dimensions, got shape ", to_string(own)));
    Dims strides(own.size(), 1), dims, moved;
    for (size_t i = own.size(); i-- > 1;) strides[i - 1] = strides[i] * own[i];
    for (size_t axis : order) dims.push_back(own[axis]), moved.push_back(strides[axis]);
    auto* bytes = const_cast<std::byte*>(value->bytes());  // the mapping is only read
    arrays.push_back({name, NDArray::borrow(bytes, value->dtype(), dims, moved, [value] {}, false)});
  };
  take("weights", weights_, order_);
  if (!biases_.empty()) take("biases", biases_, {0});
  arrays_ = std::move(arrays);
  return true;
}

std::vector<NamedArray> StoredWeights::arrays() {
  if (arrays_.empty())
    throw DeviceError(
        cat("StoredWeights '", label_, "' has no parameters before load() or after purge(); call load() first"));
  return arrays_;
}

}  // namespace mpsgraph::nngraph
