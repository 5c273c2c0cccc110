// A variable's memory: its first value, and the ways in and out of its layout.
#include "backends/cpu/variable.h"

namespace mpsgraph::cpu {

CpuVariable::CpuVariable(const ConstantPtr& value) {
  if (std::shared_ptr<std::byte> own = value->private_view()) {
    std::byte* first = own.get();
    array_ = runtime::NDArray::borrow(first, value->dtype(), value->dims(), contiguous_strides(value->dims()),
                                      [own = std::move(own)] {});
    return;
  }
  array_ = runtime::NDArray::allocate(value->dtype(), value->dims());
  value->expand_into(array_.data());
}

runtime::NDArray CpuVariable::read() const {
  if (!layout_) return array_.copy_contiguous();
  runtime::NDArray plain = runtime::NDArray::allocate(array_.dtype(), array_.dims());
  layout_->to_row_major(array_.data(), plain.data());
  return plain;
}

void CpuVariable::write(const runtime::NDArray& value) {
  if (!layout_) return array_.copy_from(value);
  const runtime::NDArray plain = value.contiguous() ? value : value.copy_contiguous();
  layout_->from_row_major(plain.data(), array_.data());
}

void CpuVariable::move_to(LayoutPtr layout) {
  if (same_layout(layout_, layout)) return;
  const runtime::NDArray plain = read();
  layout_ = std::move(layout);
  write(plain);
}

}  // namespace mpsgraph::cpu
