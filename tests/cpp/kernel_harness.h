// Runs one CPU kernel on arrays, without compiler, memory plan, or runtime.
//
// The operation is built from constants in a separate graph, so inference determines the types of the results. Results
// and scratch memory start as garbage between guard bytes, which reveals kernels that read uninitialized memory, leave
// results unwritten, or write out of bounds.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/prepacked_weights.h"
#include "check.h"
#include "core/wide.h"

namespace kernels {

using namespace mpsgraph;
using namespace mpsgraph::cpu;

struct Array {
  DType dtype = DType::float32;
  Dims dims;
  std::vector<std::byte> bytes;

  int64_t size() const { return element_count(dims); }
  double operator[](int64_t i) const {
    return dispatch(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T value;
      std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof value, sizeof value);
      return static_cast<double>(std::real(static_cast<Value<T>>(value)));
    });
  }
  void set(int64_t i, double x) {
    dispatch(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T value = static_cast<T>(static_cast<Value<T>>(x));
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
    });
  }
};

inline Array array(DType dtype, Dims dims) {
  Array a{dtype, std::move(dims), {}};
  a.bytes.resize(static_cast<size_t>(a.size()) * size_of(dtype));
  return a;
}
inline Array array(DType dtype, Dims dims, const std::vector<double>& values) {
  Array a = array(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) a.set(static_cast<int64_t>(i), values[i]);
  return a;
}
inline Array ints(const std::vector<double>& values) {
  return array(DType::int64, {static_cast<int64_t>(values.size())}, values);
}

// Return numbers that every dtype represents exactly: small multiples of 1/4 for floats, otherwise small integers.
inline Array numbers(DType dtype, Dims dims, uint32_t seed = 1) {
  Array a = array(dtype, std::move(dims));
  for (int64_t i = 0; i < a.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const int value = static_cast<int>(seed >> 16) % 17 - 8;
    a.set(i, dtype == DType::boolean ? value > 0
             : is_float(dtype)       ? value / 4.0
             : is_signed(dtype)      ? value
                                     : value + 8);
  }
  return a;
}

class HarnessLowering final : public Lowering {
 public:
  // Without `constants`, operands are not known when the kernel is built.
  HarnessLowering(const Operation& operation, bool reference, bool constants = true)
      : operation_(operation), reference_(reference), constants_(constants) {}
  const Operation& operation() const override { return operation_; }
  Operand input(size_t i) const override {
    return {static_cast<Slot>(i), operation_.input(i)->dtype(), operation_.input(i)->shape().dims()};
  }
  Operand output(size_t i) const override {
    const TensorType& type = operation_.output(i)->type;
    return {static_cast<Slot>(operation_.inputs.size() + i), type.dtype, type.shape.dims()};
  }
  Slot scratch(size_t bytes) override {
    scratch_sizes.push_back(bytes);
    return static_cast<Slot>(operation_.inputs.size() + operation_.outputs.size() + scratch_sizes.size() - 1);
  }
  void may_share(size_t, size_t) override {}
  void enters_memory(size_t) override {}
  bool reference_only() const override { return reference_; }
  ConstantWeights constant(size_t i) override { return constants_ ? Lowering::constant(i) : ConstantWeights{}; }
  std::vector<size_t> scratch_sizes;

 private:
  const Operation& operation_;
  bool reference_, constants_;
};

struct Fenced {  // 64 aligned bytes, garbage, 64 guard bytes
  explicit Fenced(size_t bytes) : memory(bytes + 192, std::byte{0xCB}), size(bytes) {}
  std::byte* data() { return memory.data() + 64 + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64; }
  bool intact() {
    for (size_t i = 0; i < 64; ++i)
      if (data()[size + i] != std::byte{0xCB} ||
          (data() - 1 - i >= memory.data() && *(data() - 1 - i) != std::byte{0xCB}))
        return false;
    return true;
  }
  std::vector<std::byte> memory;
  size_t size;
};

// Run a kernel on the inputs, with guard bytes around all memory, and return its results.
inline std::vector<Array> run_kernel(Kernel& kernel, const HarnessLowering& lowering,
                                     const std::vector<Array>& inputs) {
  const Operation& operation = lowering.operation();
  std::vector<Fenced> memory;
  for (const Array& a : inputs) memory.emplace_back(a.bytes.size());
  for (size_t i = 0; i < operation.outputs.size(); ++i) memory.emplace_back(lowering.output(i).bytes());
  for (size_t size : lowering.scratch_sizes) memory.emplace_back(size);
  Frame frame;
  for (Fenced& m : memory) frame.pointers.push_back(m.data());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].bytes.empty()) std::memcpy(frame.pointers[i], inputs[i].bytes.data(), inputs[i].bytes.size());
  kernel.index = 0;
  frame.states.push_back(kernel.make_state());
  kernel.run(frame);
  for (Fenced& m : memory) CHECK(m.intact());

  std::vector<Array> results;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    const Operand out = lowering.output(i);
    results.push_back(array(out.dtype, out.dims));
    if (out.bytes()) std::memcpy(results.back().bytes.data(), frame.at<std::byte>(out.slot), out.bytes());
  }
  return results;
}

inline bool close(const Array& a, const Array& b, double tolerance = 0);

// Run an operation with the kernel that the lowering would choose or, if it has several candidates, with each candidate
// that accepts it. Check that their results agree, and return those of the last candidate.
inline std::vector<Array> run_all(Kind kind, const std::vector<Array>& inputs, Attributes attributes = {},
                                  bool reference = false) {
  Graph graph;
  std::vector<Tensor*> tensors;
  for (const Array& a : inputs)
    tensors.push_back(graph.add("constant", {}, {{"value", ConstantData::copy(a.dtype, a.dims, a.bytes.data())}}));
  const Operation* operation = graph.create(kind, tensors, std::move(attributes));
  const std::span<const Candidate> candidates = candidates_of(kind);
  if (candidates.empty() || reference) {
    HarnessLowering lowering(*operation, reference);
    return run_kernel(*make_kernel(lowering), lowering, inputs);
  }
  std::vector<Array> results, others;
  for (size_t i = candidates.size(); i-- > 0;) {  // the last candidate first, because the others are compared with it
    HarnessLowering lowering(*operation, false);
    Offer offer = candidates[i].offer(lowering);
    if (!offer) continue;
    const auto kernel = offer.take();
    if (results.empty()) {
      results = run_kernel(*kernel, lowering, inputs);
      continue;
    }
    others = run_kernel(*kernel, lowering, inputs);
    for (size_t o = 0; o < results.size(); ++o) {
      const DType dtype = results[o].dtype;
      const double tolerance = is_half(dtype) ? 2e-2 : dtype == DType::float32 ? 1e-4 : 1e-10;
      if (!close(others[o], results[o], is_inexact(dtype) ? tolerance : 0))
        check::fail(__FILE__, __LINE__, cat("candidate ", candidates[i].name, " of ", kind, " agrees"));
    }
  }
  return results;
}

inline Array run(Kind kind, const std::vector<Array>& inputs, Attributes attributes = {}, bool reference = false) {
  return run_all(kind, inputs, std::move(attributes), reference)[0];
}

// Call f(index) for all indices of dims in row-major order.
inline void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& f) {
  Dims index(dims.size());
  for (int64_t n = element_count(dims); n > 0; --n) {
    f(index);
    for (size_t i = dims.size(); i-- > 0 && ++index[i] == dims[i];) index[i] = 0;
  }
}
inline int64_t linear(const Dims& dims, const Dims& index) {
  int64_t result = 0;
  for (size_t i = 0; i < dims.size(); ++i) result = result * dims[i] + index[i];
  return result;
}
// Return the array whose element at `index` is f(index).
inline Array tabulate(DType dtype, const Dims& dims, const std::function<double(const Dims&)>& f) {
  Array a = array(dtype, dims);
  int64_t i = 0;
  for_each_index(dims, [&](const Dims& index) { a.set(i++, f(index)); });
  return a;
}

// Whether both arrays have the same type and agree up to `tolerance`, relative for values above 1. NaN equals NaN.
inline bool close(const Array& a, const Array& b, double tolerance) {
  if (a.dtype != b.dtype || a.dims != b.dims) {
    std::cerr << a.dtype << to_string(a.dims) << " is not " << b.dtype << to_string(b.dims) << "\n";
    return false;
  }
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y)))
      continue;
    std::cerr << "element " << i << " of " << to_string(a.dims) << ": " << x << " is not " << y << "\n";
    return false;
  }
  return true;
}

inline double epsilon(DType dtype) {
  switch (dtype) {
    case DType::float16: return 1e-3;
    case DType::bfloat16: return 8e-3;
    case DType::float32: return 2e-6;
    case DType::float64: return 1e-13;
    default: return 0;
  }
}

inline const std::vector<DType>& float_dtypes() {
  static const std::vector<DType> all{DType::float32, DType::float64, DType::float16, DType::bfloat16};
  return all;
}
inline std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < dtype_count; ++i) all.push_back(static_cast<DType>(i));
  return all;
}
inline std::vector<DType> number_dtypes() {
  std::vector<DType> all = all_dtypes();
  std::erase_if(all, [](DType d) { return d == DType::boolean || is_complex(d); });
  return all;
}

}  // namespace kernels
