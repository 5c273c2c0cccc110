// Code shared by the probes of nodes: small arrays, and the comparison of two devices.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/metal/direct.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/command_queue.h"

namespace mpsgraph::metal {

using Values = std::vector<float>;

inline runtime::NDArray array_of(const Values& values, const Dims& dims) {
  runtime::NDArray array = runtime::NDArray::allocate(DType::float32, dims);
  std::memcpy(array.data(), values.data(), array.bytes());
  return array;
}

// Fixed test data: multiples of 1/2 between -2 and 2. The eight channels of a pixel are all different.
inline runtime::NDArray images_of(const Dims& dims, float from = -2) {
  Values values(static_cast<size_t>(element_count(dims)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = from + 0.5f * static_cast<float>((i * 5 + i / 8) % 9);
  return array_of(values, dims);
}

inline Values values_of(const runtime::NDArray& array) {
  Values values(static_cast<size_t>(array.elements()));
  if (array.dtype() == DType::float32) std::memcpy(values.data(), array.data(), array.bytes());
  return values;
}

// Computes a result on the given device.
using Ask = std::function<Values(runtime::Device&)>;

inline bool agree(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-3f * (1 + std::abs(b[i]))) && !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

// Compares named cases on both devices. The answer lists the cases that agree, and then each other case with both
// results.
class Beside {
 public:
  void ask(const std::string& name, const Ask& what) {
    try {
      const Values ours = what(runtime::Device::get("cpu")), apples = what(runtime::Device::get("metal"));
      if (agree(apples, ours))
        same_ += (same_.empty() ? "" : ", ") + name;
      else
        others_ += cat("; ", name, ": ", list(apples), ", on the CPU ", list(ours));
    } catch (const Error& error) {
      others_ += cat("; ", name, ": refused: ", error.what());
    }
  }
  std::string answer() const { return cat("as on the CPU: ", same_.empty() ? "none" : same_, others_); }

 private:
  std::string same_, others_;
};

inline void finish(const std::shared_ptr<runtime::CommandBuffer>& buffer) {
  buffer->commit();
  buffer->wait_until_completed();
}

}  // namespace mpsgraph::metal
