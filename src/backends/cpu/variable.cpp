// Storage of a variable on the CPU.
#include "backends/cpu/variable.h"

#include <cstring>
#include <exception>
#include <mutex>

#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

runtime::NDArray array_in(std::shared_ptr<std::byte> memory, const TensorType& type) {
  std::byte* first = memory.get();
  const Dims& dims = type.shape.dims();
  return runtime::NDArray::borrow(first, type.dtype, dims, contiguous_strides(dims), [memory = std::move(memory)] {});
}

}  // namespace

CpuVariable::CpuVariable(const ConstantPtr& value) {
  const TensorType type{value->dtype(), Shape(value->dims())};
  if (std::shared_ptr<std::byte> memory = value->take()) {
    array_ = array_in(std::move(memory), type);
  } else if (value->is_splat()) {
    array_ = runtime::NDArray::allocate(type.dtype, value->dims());
    value->expand_into(array_.data());
  } else {
    first_ = value;
    array_ = runtime::NDArray::borrow(const_cast<std::byte*>(value->bytes()), type.dtype, value->dims(),
                                      contiguous_strides(value->dims()), {}, false);
  }
}

void CpuVariable::own() {
  if (!first_) return;
  const runtime::NDArray memory = runtime::NDArray::allocate(array_.dtype(), array_.dims());
  first_->expand_into(memory.data());
  array_ = memory;
  first_ = nullptr;
}

// Copy the values in parallel, because page faults on fresh memory cost more than the copies themselves.
void CpuVariable::own(std::span<CpuVariable* const> variables) {
  std::mutex mutex;
  std::exception_ptr error;
  parallel_parts(static_cast<int64_t>(variables.size()), [&](int64_t i) {
    try {
      variables[static_cast<size_t>(i)]->own();
    } catch (...) {  // exceptions must not leave the parallel loop
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

runtime::NDArray CpuVariable::read() const { return array_.copy_contiguous(); }

void CpuVariable::write(const runtime::NDArray& value) {
  if (first_) {
    array_ = runtime::NDArray::allocate(array_.dtype(), array_.dims());
    first_ = nullptr;
  }
  array_.copy_from(value);
}

std::function<void()> CpuVariable::saved() {
  auto bytes = std::make_shared<std::vector<std::byte>>(data(), data() + this->bytes());
  return [this, bytes = std::move(bytes)] { std::memcpy(data(), bytes->data(), bytes->size()); };
}

}  // namespace mpsgraph::cpu
