// dynamic_slice and dynamic_slice_update_data: copies from and to a position given at run time.
//
// Sizes and strides are static, so the copy is prepared in advance, and a run only adds the offset. If nothing else
// uses the tensor to be updated, for example when a variable is assigned the result, only the update itself is written.

#include "backends/cpu/gather/indices.h"
#include "backends/cpu/shape/strided_copy.h"
#include "core/ops/shape.h"

namespace mpsgraph::cpu {
namespace {

// A view of the tensor `full`, whose start positions are given at run time by an operand.
class Window {
 public:
  Window(const Lowering& lowering, const Operand& full, const Dims& sizes, const Operand& starts)
      : sizes_(sizes),
        full_(full.dims),
        steps_(contiguous_strides(full.dims)),
        apart_(ops::window_strides(lowering.attributes(), full.dims.size())),
        item_(static_cast<int64_t>(size_of(full.dtype))),
        starts_(starts),
        name_(cat("[", lowering.operation().kind().name().substr(std::string_view("dynamic_").size()), "] '",
                  lowering.operation().name, "'")),
        where_(lowering.operation().where()) {}

  // Return the strides of the view's elements in the full tensor.
  Dims strides() const {
    Dims strides = steps_;
    for (size_t axis = 0; axis < strides.size(); ++axis) strides[axis] *= apart_[axis];
    return strides;
  }

  // Return the byte offset of the view's first element.
  int64_t first_byte(const Frame& f) const {
    const std::byte* starts = f.at<std::byte>(starts_.slot);
    int64_t first = 0;
    for (size_t axis = 0; axis < full_.size(); ++axis) {
      const int64_t given = integer_at(starts, starts_.dtype, static_cast<int64_t>(axis));
      const auto start = ops::window_start(given, sizes_[axis], apart_[axis], full_[axis]);
      if (!start) outside(axis, given);
      first += *start * steps_[axis];
    }
    return first * item_;
  }

 private:
  [[noreturn]] void outside(size_t axis, int64_t start) const {
    throw OutOfRangeError(cat(name_, " start ", start, " on axis ", axis, " is out of range for shape ",
                              to_string(full_), ": a slice of size ", sizes_[axis], " must lie within the axis",
                              where_));
  }

  Dims sizes_, full_, steps_;
  Ints apart_;
  int64_t item_;
  Operand starts_;
  std::string name_, where_;
};

std::unique_ptr<Kernel> lower_dynamic_slice(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Window window(lowering, x, y.dims, lowering.input(1));
  const StridedCopy copy(size_of(x.dtype), y.dims, contiguous_strides(y.dims), window.strides());
  return kernel([=](Frame& f) { copy.run(f.at<std::byte>(y.slot), f.at<std::byte>(x.slot) + window.first_byte(f)); });
}

std::unique_ptr<Kernel> lower_dynamic_slice_update_data(Lowering& lowering) {
  const Operand data = lowering.input(0), update = lowering.input(1), y = lowering.output();
  const Window window(lowering, y, update.dims, lowering.input(2));
  const StridedCopy copy(size_of(y.dtype), update.dims, window.strides(), contiguous_strides(update.dims));
  lowering.may_share(0, 0);
  return kernel([=](Frame& f) {
    const int64_t first = window.first_byte(f);  // throws before anything is written if the start is out of range
    if (f.pointers[y.slot] != f.pointers[data.slot])
      copy_bytes(f.at<std::byte>(y.slot), f.at<std::byte>(data.slot), data.bytes());
    copy.run(f.at<std::byte>(y.slot) + first, f.at<std::byte>(update.slot));
  });
}

}  // namespace

const Kernels dynamic_slice_kernels("dynamic_slice", [] {
  define_kernel("dynamic_slice", lower_dynamic_slice);
  define_kernel("dynamic_slice_update_data", lower_dynamic_slice_update_data);
});

}  // namespace mpsgraph::cpu
