// Code shared by the lowerings with sliding windows: explicit padding, layouts, and windows as slices.
//
// MPSGraph always receives explicit padding. Since all sizes are known, every padding style can be converted to the
// numbers of elements before and after an axis, which are unambiguous. MPSGraph's own rounding and ceilMode are not
// used.
#pragma once

#include <array>

#include "backends/metal/lowering.h"
#include "core/ops/window.h"

namespace mpsgraph::metal {

// Return the windows along an axis of `input` elements. behind() returns the padding after the last element of that
// axis, including the overhang of the last window in ceil_mode.
ops::Window window_of(const ops::Windows& windows, int i, int64_t input, int64_t kernel);
inline int64_t behind(const ops::Window& window) { return window.end + window.overhang; }

MPSGraphTensorNamedDataLayout data_layout(const ops::Windows& windows);  // returns NHWC, NCHW, NDHWC, or NCDHW

// The kernel elements (taps) of windows over some axes of a tensor, in row-major order. The elements that tap t reads
// in all windows form a slice of the padded tensor.
class Taps {
 public:
  // `axes` are non-negative; `windows` has one entry per axis.
  Taps(const Lowering& l, Dims dims, std::vector<int> axes, std::vector<ops::Window> windows);

  int64_t count() const { return count_; }
  const Dims& result_dims() const { return result_; }
  Ints tap(int64_t number) const;  // index of the tap along each window axis
  const std::vector<int>& axes() const { return axes_; }
  const std::vector<ops::Window>& windows() const { return windows_; }
  bool pads() const { return padded_ != dims_; }
  // bool tensor with one element per window: whether this tap reads inside the tensor
  MPSGraphTensor* inside(int64_t number) const;

  MPSGraphTensor* padded(MPSGraphTensor* tensor) const;  // pads the tensor with zeros
  MPSGraphTensor* slice(MPSGraphTensor* padded, int64_t number) const;
  // The transpose of padding and slicing: add the value of each tap at the positions that the tap reads, and crop the
  // padding.
  MPSGraphTensor* gathered(const std::vector<MPSGraphTensor*>& slices) const;

 private:
  struct Cut {
    Ints starts, ends, strides;
  };
  Cut cut(int64_t number) const;
  MPSGraphTensor* spread(MPSGraphTensor* slice, const Cut& cut) const;

  const Lowering& l_;
  Dims dims_, padded_, result_, left_, right_;
  std::vector<int> axes_;
  std::vector<ops::Window> windows_;
  int64_t count_ = 1;
};

// Return a constant with one number per position along `axis`, shaped so that it broadcasts to a tensor of the given
// rank.
MPSGraphTensor* along_axis(const Lowering& l, const std::vector<float>& numbers, int axis, int rank, DType dtype);
MPSGraphTensor* along_axis(const Lowering& l, const Ints& numbers, int axis, int rank, DType dtype = DType::int32);

// Return the `carried` value of the tap with the largest (or smallest) value of each window; among equal values, the
// first tap wins. NaN wins against all numbers in both cases. Taps in the padding are ignored; for a window of only
// padding, the result is the `carried` value of its first tap.
using OfTap = std::function<MPSGraphTensor*(int64_t tap)>;
MPSGraphTensor* of_extremum(const Lowering& l, const Taps& taps, const OfTap& value, const OfTap& carried,
                            bool largest);

}  // namespace mpsgraph::metal
