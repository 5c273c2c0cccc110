// Runs an MPSGraph once and waits for it, for the self-test's probes and oracle. Programs run through program.h.
#pragma once

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/metal/lowering.h"
#include "backends/metal/queue.h"

namespace mpsgraph::metal {

using Fed = NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>;
using Asked = std::vector<std::pair<MPSGraphTensor*, TensorType>>;

// Copy the data to device memory, which can be fed without staging.
runtime::NDArray on_device(MetalDevice& device, const void* data, const TensorType& type);

// Return the values of the given tensors; also runs the operations in `also`. DeviceError if the command buffer fails.
std::vector<runtime::NDArray> run_once(MetalDevice& device, MPSGraph* graph, Fed* feeds, const Asked& asked,
                                       NSArray<MPSGraphOperation*>* also = nil);

// A small graph whose feeds have values. `values` runs the graph and returns the values of one tensor.
class Trial {
 public:
  explicit Trial(MetalDevice& device) : device_(device) {}
  MPSGraph* const graph = [MPSGraph new];

  MPSGraphTensor* fed(std::vector<float> values, const Dims& dims) { return fed(values.data(), DType::float32, dims); }
  MPSGraphTensor* fed(std::vector<int32_t> values) {
    return fed(values.data(), DType::int32, {static_cast<int64_t>(values.size())});
  }
  template <class T = float>
  std::vector<T> values(MPSGraphTensor* tensor, const Dims& dims) {
    const runtime::NDArray array = run({{tensor, {dtype_of<T>(), Shape(dims)}}})[0];
    const auto* data = reinterpret_cast<const T*>(array.data());
    return {data, data + array.elements()};
  }
  std::vector<runtime::NDArray> run(const Asked& asked) { return run_once(device_, graph, feeds_, asked); }

 private:
  template <class T>
  static constexpr DType dtype_of() {
    return std::is_same_v<T, float> ? DType::float32 : DType::int32;
  }
  MPSGraphTensor* fed(const void* values, DType dtype, const Dims& dims) {
    arrays_.push_back(on_device(device_, values, {dtype, Shape(dims)}));
    MPSGraphTensor* tensor = [graph placeholderWithShape:numbers(dims) dataType:data_type(dtype) name:nil];
    feeds_[tensor] = device_.data_of(arrays_.back()).data;
    return tensor;
  }
  MetalDevice& device_;
  Fed* const feeds_ = [NSMutableDictionary dictionary];
  std::vector<runtime::NDArray> arrays_;
};

template <class T>
std::string list(const std::vector<T>& values) {
  std::ostringstream out;
  out.precision(8);
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "[") << values[i];
  return out.str() + "]";
}

}  // namespace mpsgraph::metal
