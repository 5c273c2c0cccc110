// Storage of a variable on the CPU: its initial value, and conversion between row-major order and its layout.
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

runtime::NDArray CpuVariable::read() const {
  if (!layout_) return array_.copy_contiguous();
  runtime::NDArray plain = runtime::NDArray::allocate(array_.dtype(), array_.dims());
  layout_->to_row_major(array_.data(), plain.data());
  return plain;
}

void CpuVariable::write(const runtime::NDArray& value) {
  if (first_) {
    array_ = runtime::NDArray::allocate(array_.dtype(), array_.dims());
    first_ = nullptr;
  }
  if (!layout_) return array_.copy_from(value);
  const runtime::NDArray plain = value.contiguous() ? value : value.copy_contiguous();
  layout_->from_row_major(plain.data(), array_.data());
}

std::function<void()> CpuVariable::saved() {
  auto bytes = std::make_shared<std::vector<std::byte>>(data(), data() + this->bytes());
  return [this, bytes = std::move(bytes), layout = layout_] {
    if (same_layout(layout, layout_)) {
      std::memcpy(data(), bytes->data(), bytes->size());
      return;
    }
    const runtime::NDArray plain = runtime::NDArray::allocate(array_.dtype(), array_.dims());
    if (layout)
      layout->to_row_major(bytes->data(), plain.data());
    else
      std::memcpy(plain.data(), bytes->data(), bytes->size());
    write(plain);
  };
}

void CpuVariable::move_to(LayoutPtr layout) {
  if (same_layout(layout_, layout)) return;
  const ConstantPtr first = first_;  // keeps the initial value alive while it is read
  const runtime::NDArray plain = first ? array_ : read();
  layout_ = std::move(layout);
  write(plain);
}

}  // namespace mpsgraph::cpu
