// What the lowerings with sliding windows share: padding as numbers, names of layouts, and windows as slices.
//
// MPSGraph is always given explicit padding. All sizes are known, so every style of padding is numbers of elements
// before and behind an axis, which have one meaning; what a style rounds, or what ceilMode adds beside padding, is not
// asked of it.
#pragma once

#include <array>

#include "backends/metal/lowering.h"
#include "core/ops/window.h"

namespace mpsgraph::metal {

// One axis' windows, over `input` elements. What ceil_mode makes the last window cover is behind the padding.
ops::Window window_of(const ops::Windows& windows, int i, int64_t input, int64_t kernel);
inline int64_t behind(const ops::Window& window) { return window.end + window.overhang; }

MPSGraphTensorNamedDataLayout data_layout(const ops::Windows& windows);  // NHWC, NCHW, NDHWC, NCDHW

// The taps of windows over some axes of a tensor, one after another, row by row. Tap t of all windows together is a
// slice of the padded tensor.
class Taps {
 public:
  // `axes` from the front, beside the windows over them.
  Taps(const Lowering& l, Dims dims, std::vector<int> axes, std::vector<ops::Window> windows);

  int64_t count() const { return count_; }
  const Dims& result_dims() const { return result_; }
  Ints tap(int64_t number) const;  // of each window
  const std::vector<int>& axes() const { return axes_; }
  const std::vector<ops::Window>& windows() const { return windows_; }
  bool pads() const { return padded_ != dims_; }
  MPSGraphTensor* inside(int64_t number) const;  // bool, for each window: does this tap read inside?

  MPSGraphTensor* padded(MPSGraphTensor* tensor) const;  // with zeros
  MPSGraphTensor* slice(MPSGraphTensor* padded, int64_t number) const;
  // The transpose of both: what the windows' taps hold, added where they read, without the padding.
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

// A constant for each position along one axis of a tensor of that rank, to be broadcast over the others.
MPSGraphTensor* along_axis(const Lowering& l, const std::vector<float>& numbers, int axis, int rank, DType dtype);
MPSGraphTensor* along_axis(const Lowering& l, const Ints& numbers, int axis, int rank, DType dtype = DType::int32);

// What `carried` gives for the tap whose value is the largest of its window (or the smallest), the first of several;
// NaN is larger and smaller than all numbers. Taps in the padding do not count; a window of nothing else gets that of
// the first tap.
using OfTap = std::function<MPSGraphTensor*(int64_t tap)>;
MPSGraphTensor* of_extremum(const Lowering& l, const Taps& taps, const OfTap& value, const OfTap& carried,
                            bool largest);

}  // namespace mpsgraph::metal
