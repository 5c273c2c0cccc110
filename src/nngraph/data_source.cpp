// Validation of the arrays that data sources return, and the built-in sources that hold their parameters.
#include "nngraph/data_source.h"

#include <algorithm>
#include <cstring>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

namespace {

NDArray filled(int64_t channels, float value) {
  NDArray result = NDArray::allocate(DType::float32, {channels});
  std::fill_n(reinterpret_cast<float*>(result.data()), channels, value);
  return result;
}

// Return a float32 copy of `array`.
NDArray float_copy(const NDArray& array) {
  const NDArray dense = array.copy_contiguous();
  if (dense.dtype() == DType::float32) return dense;
  const ConstantPtr value = ConstantData::copy(dense.dtype(), dense.dims(), dense.data());
  NDArray result = NDArray::allocate(DType::float32, dense.dims());
  for (int64_t i = 0; i < dense.elements(); ++i)
    reinterpret_cast<float*>(result.data())[i] = static_cast<float>(value->scalar(i));
  return result;
}

void require_dims(const NDArray& array, const Dims& dims, const std::string& what, const std::string& who) {
  if (array.dims() != dims)
    throw ShapeError(cat(who, ": ", what, " must have shape ", to_string(dims), ", got ", to_string(array.dims())));
}

struct Expected {
  std::string name;
  Dims dims;
  bool required;
};

std::vector<Expected> expected_arrays(DataSource& source) {
  if (auto* convolution = dynamic_cast<ConvolutionSource*>(&source)) {
    const ConvolutionDescriptor d = convolution->descriptor();
    return {{"weights", d.weights_dims(), true}, {"biases", {d.output_feature_channels}, false}};
  }
  const Dims channels{dynamic_cast<NormalizationSource&>(source).descriptor().number_of_feature_channels};
  std::vector<Expected> expected{{"gamma", channels, false}, {"beta", channels, false}};
  if (source.kind() == DataSource::Kind::batch_normalization) {
    expected.push_back({"mean", channels, false});
    expected.push_back({"variance", channels, false});
  }
  return expected;
}

}  // namespace

Dims ConvolutionDescriptor::weights_dims() const {
  return {output_feature_channels, kernel_height, kernel_width, depthwise ? 1 : input_feature_channels / groups};
}

NDArray* ParameterState::find(std::string_view name) {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& a) { return a.name == name; });
  return found == arrays.end() ? nullptr : &found->array;
}

Loaded::Loaded(DataSource& source, const std::string& who) : source_(&source) {
  if (!source.load()) {
    source_ = nullptr;
    throw GraphError(
        cat(who, ": load() of its data source returned False; it must return True once the parameters are available"));
  }
}

Loaded::~Loaded() {
  if (!source_) return;
  try {
    source_->purge();
  } catch (...) {  // another exception is already propagating
  }
}

void Loaded::purge() {
  DataSource* source = source_;
  source_ = nullptr;
  source->purge();
}

std::vector<NamedArray> checked_arrays(DataSource& source, const std::string& who) {
  std::vector<NamedArray> arrays = viewed_arrays(source, who);
  for (NamedArray& named : arrays) named.array = float_copy(named.array);
  return arrays;
}

std::vector<NamedArray> viewed_arrays(DataSource& source, const std::string& who) {
  std::vector<NamedArray> given = source.arrays(), result;
  for (const Expected& expected : expected_arrays(source)) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const NamedArray& a) { return a.name == expected.name; });
    if (found == given.end() || !found->array.valid()) {
      if (expected.required)
        throw GraphError(cat(who, ": its data source must provide ", expected.name, " of shape ",
                             to_string(expected.dims), " after load(), but provides none"));
      continue;
    }
    const DType dtype = found->array.dtype();
    const bool fits = dtype == DType::float32 || (expected.name == "weights" && dtype == DType::float16);
    if (!fits)
      throw DTypeError(cat(who, ": ", expected.name, " must be ",
                           expected.name == "weights" ? "float32 or float16" : "float32", ", got ", dtype));
    require_dims(found->array, expected.dims, expected.name, who);
    result.push_back({expected.name, found->array});
  }
  return result;
}

TrainableConvolution::TrainableConvolution(ConvolutionDescriptor descriptor, NDArray weights, NDArray biases,
                                           std::shared_ptr<Optimizer> optimizer, std::string label)
    : descriptor_(std::move(descriptor)), optimizer_(std::move(optimizer)), label_(std::move(label)) {
  arrays_.push_back({"weights", std::move(weights)});
  if (biases.valid()) arrays_.push_back({"biases", std::move(biases)});
  arrays_ = checked_arrays(*this, label_.empty() ? "TrainableConvolution" : cat("TrainableConvolution '", label_, "'"));
}

bool TrainableConvolution::load() {
  take_trained();
  return true;
}

TrainableNormalization::TrainableNormalization(Kind kind, NormalizationDescriptor descriptor,
                                               std::vector<NamedArray> arrays, double momentum,
                                               std::shared_ptr<Optimizer> optimizer, std::string label)
    : NormalizationSource(kind),
      descriptor_(descriptor),
      momentum_(momentum),
      arrays_(std::move(arrays)),
      optimizer_(std::move(optimizer)),
      label_(std::move(label)) {
  std::erase_if(arrays_, [](const NamedArray& a) { return !a.array.valid(); });
  const auto complete = [&](std::string_view name, float value) {
    const bool there = std::any_of(arrays_.begin(), arrays_.end(), [&](const NamedArray& a) { return a.name == name; });
    if (!there) arrays_.push_back({std::string(name), filled(descriptor_.number_of_feature_channels, value)});
  };
  complete("gamma", 1);
  complete("beta", 0);
  if (kind == Kind::batch_normalization) complete("mean", 0), complete("variance", 1);
  arrays_ =
      checked_arrays(*this, label_.empty() ? "TrainableNormalization" : cat("TrainableNormalization '", label_, "'"));
}

bool TrainableNormalization::load() {
  take_trained();
  return true;
}

}  // namespace mpsgraph::nngraph
