// StoredWeights: a convolution's parameters in a safetensors file, mapped while a filter needs them and not before.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nngraph/data_source.h"

namespace mpsgraph::nngraph {

class MPSGRAPH_API StoredWeights : public ConvolutionSource {
 public:
  // `biases` may be empty: none. `layout` of the weights in the file: "OHWI", "OIHW" or "HWIO"; GraphError for others.
  StoredWeights(std::filesystem::path path, ConvolutionDescriptor descriptor, std::string weights, std::string biases,
                std::string_view layout, std::string label);
  ConvolutionDescriptor descriptor() override { return descriptor_; }
  std::string label() const override { return label_; }
  bool load() override;  // PackageError for a file that is damaged or lacks a tensor
  void purge() override { arrays_.clear(); }
  std::vector<NamedArray> arrays() override;  // DeviceError before load()
  bool on_demand() const override { return true; }

 private:
  const std::filesystem::path path_;
  const ConvolutionDescriptor descriptor_;
  const std::string weights_, biases_, label_;
  std::vector<size_t> order_;  // of the file's axes that gives (out, height, width, in)
  std::vector<NamedArray> arrays_;
};

}  // namespace mpsgraph::nngraph
