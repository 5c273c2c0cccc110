// Windows as slices of a padded tensor, and conversion of layouts to Apple's names.
#include "backends/metal/windows.h"

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {

ops::Window window_of(const ops::Windows& windows, int i, int64_t input, int64_t kernel) {
  return *windows.window(i, input, kernel);
}

MPSGraphTensorNamedDataLayout data_layout(const ops::Windows& windows) {
  if (windows.count == 2)
    return windows.channel == -1 ? MPSGraphTensorNamedDataLayoutNHWC : MPSGraphTensorNamedDataLayoutNCHW;
  return windows.channel == -1 ? MPSGraphTensorNamedDataLayoutNDHWC : MPSGraphTensorNamedDataLayoutNCDHW;
}

Taps::Taps(const Lowering& l, Dims dims, std::vector<int> axes, std::vector<ops::Window> windows)
    : l_(l),
      dims_(std::move(dims)),
      padded_(dims_),
      result_(dims_),
      left_(dims_.size(), 0),
      right_(dims_.size(), 0),
      axes_(std::move(axes)),
      windows_(std::move(windows)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const ops::Window& w = windows_[i];
    const auto axis = static_cast<size_t>(axes_[i]);
    left_[axis] = w.begin;
    right_[axis] = behind(w);
    padded_[axis] += w.begin + behind(w);
    result_[axis] = w.output;
    count_ *= w.kernel;
  }
}

Ints Taps::tap(int64_t number) const {
  Ints tap(windows_.size());
  for (size_t i = windows_.size(); i-- > 0; number /= windows_[i].kernel) tap[i] = number % windows_[i].kernel;
  return tap;
}

Taps::Cut Taps::cut(int64_t number) const {
  Cut cut{Ints(dims_.size(), 0), padded_, Ints(dims_.size(), 1)};
  const Ints taps = tap(number);
  for (size_t i = 0; i < axes_.size(); ++i) {
    const auto axis = static_cast<size_t>(axes_[i]);
    cut.starts[axis] = taps[i] * windows_[i].dilation;
    cut.ends[axis] = cut.starts[axis] + (windows_[i].output - 1) * windows_[i].stride + 1;
    cut.strides[axis] = windows_[i].stride;
  }
  return cut;
}

MPSGraphTensor* Taps::padded(MPSGraphTensor* tensor) const {
  return pads() ? Steps(l_).pad_zeros(tensor, left_, right_) : tensor;
}

MPSGraphTensor* Taps::slice(MPSGraphTensor* padded, int64_t number) const {
  const Cut c = cut(number);
  return [l_.graph() sliceTensor:padded
                          starts:numbers(c.starts)
                            ends:numbers(c.ends)
                         strides:numbers(c.strides)
                            name:nil];
}

// Return zeros with `slice` at the positions from which the tap was cut. The operation is composed, because MPSGraph's
// gradient of slices rejects strides.
MPSGraphTensor* Taps::spread(MPSGraphTensor* slice, const Cut& cut) const {
  const Steps s(l_);
  Dims now = result_;
  Ints right = padded_;
  for (size_t axis = 0; axis < now.size(); ++axis) {
    const int64_t step = cut.strides[axis], span = cut.ends[axis] - cut.starts[axis];
    right[axis] -= cut.ends[axis];
    if (step == 1 || now[axis] == 1) continue;
    // Insert the zeros that the stride skips after each element except the last.
    const Lanes lanes(now, static_cast<int64_t>(axis));
    slice = s.pad_zeros(s.reshape(slice, {lanes.outer, lanes.n, 1, lanes.inner}), {0, 0, 0, 0}, {0, 0, step - 1, 0});
    now[axis] = span;
    slice = s.reshape(s.slice(s.reshape(slice, lanes.dims(lanes.n * step)), 1, 0, span), now);
  }
  return now == padded_ ? slice : s.pad_zeros(slice, cut.starts, right);
}

MPSGraphTensor* Taps::gathered(const std::vector<MPSGraphTensor*>& slices) const {
  const Steps s(l_);
  MPSGraphTensor* total = nil;
  for (size_t i = 0; i < slices.size(); ++i) {
    MPSGraphTensor* placed = spread(slices[i], cut(static_cast<int64_t>(i)));
    total = total ? s.add(total, placed) : placed;
  }
  for (size_t axis = 0; axis < dims_.size(); ++axis)
    if (padded_[axis] != dims_[axis]) total = s.slice(total, static_cast<int64_t>(axis), left_[axis], dims_[axis]);
  return total;
}

// A tap reads inside the tensor if it does so along every axis. Each axis has a separate mask vector.
MPSGraphTensor* Taps::inside(int64_t number) const {
  const Ints taps = tap(number);
  MPSGraphTensor* inside = nil;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const auto within = windows_[i].inside(taps[i]);
    Ints mask(static_cast<size_t>(windows_[i].output), 0);
    for (int64_t p = within.first; p < within.last; ++p) mask[static_cast<size_t>(p)] = 1;
    MPSGraphTensor* along = along_axis(l_, mask, axes_[i], static_cast<int>(dims_.size()), DType::boolean);
    inside = inside ? Steps(l_).both(inside, along) : along;
  }
  return inside;
}

namespace {

Dims only(int axis, int rank, size_t size) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(size);
  return dims;
}

}  // namespace

MPSGraphTensor* along_axis(const Lowering& l, const std::vector<float>& numbers, int axis, int rank, DType dtype) {
  NSData* data = [NSData dataWithBytes:numbers.data() length:numbers.size() * sizeof(float)];
  MPSGraphTensor* tensor = [l.graph() constantWithData:data
                                                 shape:shape_of(only(axis, rank, numbers.size()))
                                              dataType:MPSDataTypeFloat32];
  return dtype == DType::float32 ? tensor : l.cast(tensor, dtype);
}

MPSGraphTensor* along_axis(const Lowering& l, const Ints& numbers, int axis, int rank, DType dtype) {
  return Steps(l).cast(l.reshape(l.ints(numbers), only(axis, rank, numbers.size())), dtype);
}

MPSGraphTensor* of_extremum(const Lowering& l, const Taps& taps, const OfTap& value, const OfTap& carried,
                            bool largest) {
  const Steps s(l);
  MPSGraphTensor *best = value(0), *chosen = carried(0), *found = taps.pads() ? taps.inside(0) : nil;
  for (int64_t t = 1; t < taps.count(); ++t) {
    MPSGraphTensor* now = value(t);
    MPSGraphTensor* beyond = largest ? s.less(best, now) : s.less(now, best);
    // equal(best, best) is false only where `best` is NaN
    MPSGraphTensor* better = s.either(beyond, s.both(s.is_nan(now), s.equal(best, best)));
    if (found) {
      MPSGraphTensor* inside = taps.inside(t);
      better = s.both(inside, s.either(better, [l.graph() notWithTensor:found name:nil]));
      found = s.either(found, inside);
    }
    best = s.select(better, now, best);
    chosen = s.select(better, carried(t), chosen);
  }
  return chosen;
}

}  // namespace mpsgraph::metal
