// StoredWeights: parameters of a convolution in a safetensors file, mapped only while a filter needs them.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nngraph/data_source.h"

namespace mpsgraph::nngraph {

class MPSGRAPH_API StoredWeights : public ConvolutionSource {
 public:
  // `biases` may be empty for no biases. `layout` is that of the weights in the file, "OHWI", "OIHW", or "HWIO";
  // GraphError for other values.
  StoredWeights(std::filesystem::path path, ConvolutionDescriptor descriptor, std::string weights, std::string biases,
                std::string_view layout, std::string label);
  ConvolutionDescriptor descriptor() override { return descriptor_; }
  std::string label() const override { return label_; }
  bool load() override;  // throws PackageError if the file is damaged or lacks a tensor
  void purge() override { arrays_.clear(); }
  std::vector<NamedArray> arrays() override;  // throws DeviceError before load()
  bool on_demand() const override { return true; }

 private:
  const std::filesystem::path path_;
  const ConvolutionDescriptor descriptor_;
  const std::string weights_, biases_, label_;
  std::vector<size_t> order_;  // axes of the file's array in the order (out, height, width, in)
  std::vector<NamedArray> arrays_;
};

}  // namespace mpsgraph::nngraph
