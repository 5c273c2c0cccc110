// Image resizing and its gradients.
//
// Along each axis, an element of the result is a weighted sum of elements of the input, called taps: one for
// nearest-neighbor, two for linear interpolation. Gradients use the transposed table of taps. A row of the result is
// computed in two steps: the input rows selected by the leading axes are blended into a single row, which is then
// resized along the last axis. Tables are computed in advance, unless scale and offset are run-time inputs.
#include "core/ops/resize.h"

#include <cmath>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/sampling/resize_float.h"
#include "backends/cpu/streaming_stores.h"
#include "backends/cpu/wide_kernels.h"
#include "core/ops/shape.h"

namespace mpsgraph::cpu {
namespace {

// Tap table of one axis: element i of the result is the sum of weight[t] * input[index[t]] for t in
// [begin[i], begin[i + 1]).
struct AxisTaps {
  std::vector<int64_t> begin, index;
  std::vector<double> weight;
  int64_t each = 0;  // taps per element: 1 (with weight 1) or 2; 0 if the number varies
  // The same table in the form used by the loops over rows of floats (resize_float.h), for axes with two taps per
  // element.
  std::vector<int32_t> low, high;
  std::vector<float> u, v;
  PairsOfTaps pairs() const { return {low.data(), high.data(), u.data(), v.data()}; }
};

struct Axis {
  int64_t images, result;  // sizes of the image and of the result in the forward operation
  int resized = -1;        // index among the resized axes; -1 if the axis is not resized
};

struct ResizePlan {
  std::vector<Axis> axes;  // the leading axes, followed by the last resized axis
  int64_t inner = 1;       // elements per position of the last resized axis
  std::vector<ops::Placement> placements;  // one placement for each of the resized axes
  std::optional<ops::Rounding> nearest;
  bool gradient;

  ResizePlan(const Lowering& lowering, const Dims& images, const Dims& result, bool gradient) : gradient(gradient) {
    const Attributes& a = lowering.attributes();
    const auto resized = *ops::resized_axes(a.string("layout"), static_cast<int>(images.size()));
    if (const Attribute* mode = a.find("nearest_rounding_mode"))
      nearest = ops::rounding_from_name(std::get<std::string>(*mode));
    const bool given = lowering.input_count() > 2;
    for (size_t axis = 0, next = 0; axis < images.size(); ++axis) {
      const bool named = next < resized.size() && resized[next] == static_cast<int>(axis);
      ops::Placement placement;
      placement.mode = given ? ops::Placement::Mode::given : ops::placement_mode(a);
      if (named) placements.push_back(placement);
      const bool moves = named && (given || images[axis] != result[axis]);
      const bool together = !moves && !axes.empty() && axes.back().resized < 0;
      if (together)
        axes.back().images *= images[axis], axes.back().result *= images[axis];
      else
        axes.push_back({images[axis], result[axis], moves ? static_cast<int>(next) : -1});
      next += named;
    }
    if (!axes.empty() && axes.back().resized < 0) {
      inner = axes.back().images;
      axes.pop_back();
    }
    if (axes.empty()) axes.push_back({1, 1, -1});
  }

  int64_t from(const Axis& axis) const { return gradient ? axis.result : axis.images; }
  int64_t to(const Axis& axis) const { return gradient ? axis.images : axis.result; }

  // Write the table of an axis into arrays that are already large enough, so that nothing is allocated.
  void fill(const Axis& axis, ops::Placement placement, AxisTaps& forward, AxisTaps& transposed) const {
    const int64_t count = axis.resized < 0 || nearest ? 1 : 2;
    forward.each = count;
    forward.begin.resize(static_cast<size_t>(axis.result) + 1);
    forward.index.resize(static_cast<size_t>(axis.result * count));
    forward.weight.resize(static_cast<size_t>(axis.result * count));
    for (int64_t i = 0; i <= axis.result; ++i) forward.begin[i] = i * count;
    for (int64_t i = 0; i < axis.result; ++i) {
      int64_t* index = forward.index.data() + i * count;
      double* weight = forward.weight.data() + i * count;
      weight[0] = 1;
      if (axis.resized < 0) {
        index[0] = i;
        continue;
      }
      const double place = placement.source(i, axis.images, axis.result);
      if (nearest) {
        index[0] = ops::rounded_index(place, *nearest, axis.images);
        continue;
      }
      const double inside = place > 0 ? std::min(place, static_cast<double>(axis.images - 1)) : 0;
      index[0] = static_cast<int64_t>(inside);
      index[1] = std::min(index[0] + 1, axis.images - 1);
      weight[1] = inside - static_cast<double>(index[0]);
      weight[0] = 1 - weight[1];
    }
    if (count == 2) pair(forward);
    if (gradient) transpose(axis, forward, transposed);
  }

  static void pair(AxisTaps& taps) {
    const size_t n = taps.index.size() / 2;
    taps.low.resize(n), taps.high.resize(n), taps.u.resize(n), taps.v.resize(n);
    for (size_t i = 0; i < n; ++i) {
      taps.low[i] = static_cast<int32_t>(taps.index[2 * i]), taps.high[i] = static_cast<int32_t>(taps.index[2 * i + 1]);
      taps.u[i] = static_cast<float>(taps.weight[2 * i]), taps.v[i] = static_cast<float>(taps.weight[2 * i + 1]);
    }
  }

  static void transpose(const Axis& axis, const AxisTaps& forward, AxisTaps& transposed) {
    transposed.begin.assign(static_cast<size_t>(axis.images) + 1, 0);
    transposed.index.resize(forward.index.size());
    transposed.weight.resize(forward.weight.size());
    for (int64_t index : forward.index) ++transposed.begin[index + 1];
    for (int64_t i = 0; i < axis.images; ++i) transposed.begin[i + 1] += transposed.begin[i];
    for (int64_t i = 0; i < axis.result; ++i)
      for (int64_t t = forward.begin[i]; t < forward.begin[i + 1]; ++t) {
        const int64_t at = transposed.begin[forward.index[t]]++;
        transposed.index[at] = i;
        transposed.weight[at] = forward.weight[t];
      }
    for (int64_t i = axis.images; i > 0; --i) transposed.begin[i] = transposed.begin[i - 1];
    transposed.begin[0] = 0;
  }
};

struct Tables final : KernelState {
  std::vector<AxisTaps> forward, transposed;
  explicit Tables(const ResizePlan& plan) : forward(plan.axes.size()), transposed(plan.axes.size()) {
    for (size_t i = 0; i < plan.axes.size(); ++i) {
      const Axis& axis = plan.axes[i];
      fill(plan, i, axis.resized < 0 ? ops::Placement() : plan.placements[axis.resized]);
    }
  }
  void fill(const ResizePlan& plan, size_t axis, const ops::Placement& placement) {
    plan.fill(plan.axes[axis], placement, forward[axis], transposed[axis]);
  }
  const AxisTaps& taps(const ResizePlan& plan, size_t axis) const {
    return (plan.gradient ? transposed : forward)[axis];
  }
};

// The type in which weighted sums of T are accumulated. Integers only support nearest-neighbor.
template <class T>
using Sum = std::conditional_t<is_float_type<T>, Value<T>, Accumulate<T>>;

template <class T>
void add_row(Sum<T>* sum, const T* row, int64_t n, double weight, bool first) {
  const auto w = static_cast<Sum<T>>(weight);
  if (first)
    for (int64_t i = 0; i < n; ++i) sum[i] = w * static_cast<Sum<T>>(row[i]);
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += w * static_cast<Sum<T>>(row[i]);
}

// Resize one row along the last axis. blend() has already combined the rows along the leading axes into this row.
template <class T>
void resize_row(const AxisTaps& taps, int64_t count, int64_t inner, const Sum<T>* from, T* to) {
  const auto weight = [&](int64_t t) { return static_cast<Sum<T>>(taps.weight[t]); };
  const int64_t* index = taps.index.data();
  if (taps.each == 1) {
    if (inner == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[index[i]]);
    else
      for (int64_t i = 0; i < count; ++i, to += inner)
        std::transform(from + index[i] * inner, from + (index[i] + 1) * inner, to,
                       [](Sum<T> x) { return static_cast<T>(x); });
    return;
  }
  if (inner == 1 && taps.each == 2) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(weight(2 * i) * from[index[2 * i]] + weight(2 * i + 1) * from[index[2 * i + 1]]);
    return;
  }
  if (inner == 1) {
    for (int64_t i = 0; i < count; ++i) {
      Sum<T> sum = 0;
      for (int64_t t = taps.begin[i]; t < taps.begin[i + 1]; ++t) sum += weight(t) * from[taps.index[t]];
      to[i] = static_cast<T>(sum);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, to += inner) {
    const int64_t begin = taps.begin[i], n = taps.begin[i + 1] - begin;
    const Sum<T>* a = n > 0 ? from + taps.index[begin] * inner : nullptr;
    if (n == 1 || n == 2) {
      const Sum<T>* b = from + taps.index[begin + n - 1] * inner;
      const Sum<T> u = weight(begin), v = n == 2 ? weight(begin + 1) : Sum<T>(0);
      for (int64_t j = 0; j < inner; ++j) to[j] = static_cast<T>(u * a[j] + v * b[j]);
      continue;
    }
    for (int64_t j = 0; j < inner; ++j) {
      Sum<T> sum = 0;
      for (int64_t t = begin; t < begin + n; ++t) sum += weight(t) * from[taps.index[t] * inner + j];
      to[j] = static_cast<T>(sum);
    }
  }
}

// The part of the resize kernel that does not depend on the element type.
class ResizeTables : public Kernel {
 public:
  // `sum` is the size in bytes of the type in which sums are accumulated.
  ResizeTables(Lowering& lowering, ResizePlan plan, size_t sum) : plan_(std::move(plan)), tables_(plan_) {
    x_ = lowering.input(0), y_ = lowering.output();
    if (lowering.input_count() > 2) scale_ = lowering.input(2), offset_ = lowering.input(3);
    const Axis& last = plan_.axes.back();
    row_ = plan_.from(last) * plan_.inner;
    rows_ = y_.elements() == 0 ? 0 : y_.elements() / (plan_.to(last) * plan_.inner);
    parts_ = std::clamp<int64_t>(rows_ / std::max<int64_t>(1, grain_for(row_ * 8)), 1, thread_count());
    blended_ = lowering.scratch(static_cast<size_t>(parts_ * row_) * sum);
  }

  std::unique_ptr<KernelState> make_state() const override {
    return given() ? std::make_unique<Tables>(plan_) : nullptr;
  }
  std::string description() const override { return cat(plan_.nearest ? "nearest" : "linear", ", ", rows_, " rows"); }

 protected:
  // Return the precomputed tables. If scale and offset are run-time inputs, compute and return the tables of this run.
  const Tables& tables(Frame& frame) const {
    if (!given()) return tables_;
    auto& own = static_cast<Tables&>(*frame.states[static_cast<size_t>(index)]);
    place(frame, own);
    return own;
  }

  const ResizePlan plan_;
  const Tables tables_;
  Operand x_, y_, scale_, offset_;
  int64_t row_, rows_, parts_;
  Slot blended_;

 private:
  bool given() const { return scale_.slot >= 0; }

  // Compute the tables from the scale and offset inputs of this run.
  void place(Frame& frame, Tables& tables) const {
    const auto number = [&](const Operand& operand, int64_t i) {
      switch (operand.dtype) {
        case DType::float64: return frame.at<double>(operand.slot)[i];
        case DType::float16: return double{static_cast<float>(frame.at<Half>(operand.slot)[i])};
        case DType::bfloat16: return double{static_cast<float>(frame.at<BFloat16>(operand.slot)[i])};
        default: return double{frame.at<float>(operand.slot)[i]};
      }
    };
    for (size_t i = 0; i < plan_.axes.size(); ++i) {
      const int axis = plan_.axes[i].resized;
      if (axis >= 0) tables.fill(plan_, i, {ops::Placement::Mode::given, number(scale_, axis), number(offset_, axis)});
    }
  }
};

// The part of the resize kernel that depends on the element type T.
template <class T>
class ResizeKernel final : public ResizeTables {
 public:
  ResizeKernel(Lowering& lowering, ResizePlan plan) : ResizeTables(lowering, std::move(plan), sizeof(Sum<T>)) {}

  void run(Frame& frame) const override {
    const Tables& tables = this->tables(frame);
    const T* x = frame.at<const T>(x_.slot);
    T* y = frame.at<T>(y_.slot);
    const bool past = streaming(y);
    parallel_parts(parts_, [&](int64_t part) {
      Sum<T>* blended = frame.at<Sum<T>>(blended_) + part * row_;
      for (int64_t row = rows_ * part / parts_; row < rows_ * (part + 1) / parts_; ++row) {
        if (row % 16 == 0) poll_run();
        const Sum<T>* from = blend(tables, row, x, blended);
        const int64_t count = plan_.to(plan_.axes.back());
        const AxisTaps& taps = tables.taps(plan_, plan_.axes.size() - 1);
        T* to = y + row * count * plan_.inner;
        if constexpr (std::is_same_v<T, float>) {
          if (taps.each == 2 && plan_.inner == 1 && loops_.elements && row_ <= INT32_MAX) {
            loops_.elements(taps.pairs(), count, from, row_, past, to);
            continue;
          }
          if (taps.each == 2 && plan_.inner >= loops_.narrowest) {
            loops_.pixels(taps.index.data(), taps.weight.data(), count, plan_.inner, from, past, to);
            continue;
          }
        }
        resize_row<T>(taps, count, plan_.inner, from, to);
      }
      if (past) streaming_fence();
    });
  }

 private:
  // Sum the rows of x for all combinations of the leading axes' taps, each multiplied by its weight. A single row with
  // weight 1 is returned without a copy.
  const Sum<T>* blend(const Tables& tables, int64_t row, const T* x, Sum<T>* blended) const {
    const size_t leading = plan_.axes.size() - 1;
    int64_t at[max_rank], begin[max_rank], end[max_rank];
    bool none = false, single = std::is_same_v<T, Sum<T>>;
    for (size_t i = leading; i-- > 0;) {
      const int64_t size = plan_.to(plan_.axes[i]), place = row % size;
      row /= size;
      begin[i] = at[i] = tables.taps(plan_, i).begin[place];
      end[i] = tables.taps(plan_, i).begin[place + 1];
      none |= begin[i] == end[i];
      single &= tables.taps(plan_, i).each == 1;
    }
    if (none) {
      std::fill_n(blended, row_, Sum<T>(0));
      return blended;
    }
    const T* first = nullptr;  // first row, which is not added until a second row follows
    double first_weight = 0;
    for (bool begins = true;; begins = false) {
      int64_t from = 0;
      double weight = 1;
      for (size_t i = 0; i < leading; ++i) {
        const AxisTaps& taps = tables.taps(plan_, i);
        from = from * plan_.from(plan_.axes[i]) + taps.index[at[i]];
        weight *= taps.weight[at[i]];
      }
      const T* next = x + from * row_;
      if constexpr (std::is_same_v<T, Sum<T>>)
        if (single) return next;
      if (begins) {
        first = next, first_weight = weight;
      } else if (weight != 0 && first) {
        add_two(blended, std::exchange(first, nullptr), first_weight, next, weight);
      } else if (weight != 0) {
        add_row<T>(blended, next, row_, weight, false);
      }
      size_t i = leading;
      while (i > 0 && ++at[i - 1] == end[i - 1]) --i, at[i] = begin[i];
      if (i == 0) break;
    }
    if (first) add_row<T>(blended, first, row_, first_weight, true);
    return blended;
  }

  void add_two(Sum<T>* sum, const T* a, double u, const T* b, double v) const {
    if constexpr (std::is_same_v<T, float>)
      if (loops_.blend) return loops_.blend(a, static_cast<float>(u), b, static_cast<float>(v), row_, sum);
    add_row<T>(sum, a, row_, u, true);
    add_row<T>(sum, b, row_, v, false);
  }

  // Return whether to use streaming stores. The result must be too large for the caches and start at a cache line, and
  // each of its pixels (or rows, if a pixel is a single element) must consist of whole cache lines.
  bool streaming(const T* y) const {
    const int64_t run = plan_.inner == 1 ? plan_.to(plan_.axes.back()) : plan_.inner;
    return static_cast<size_t>(run) * sizeof(T) % cache_line == 0 && at_a_line(y) && y_.bytes() >= streaming_threshold;
  }

  const ResizeRows& loops_ = resize_rows();  // vectorized loops for float rows
};

// Explicit instantiation, because clang 22 omits `run` of the first type instantiated by the dispatch.
template class ResizeKernel<uint8_t>;

template <bool gradient>
std::unique_ptr<Kernel> lower_resize(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  if (const DType wide = wide_float(x.dtype); wide != x.dtype)
    return widened_kernel(lowering, x.dtype, wide, lower_resize<gradient>);
  ResizePlan plan(lowering, gradient ? y.dims : x.dims, gradient ? x.dims : y.dims, gradient);
  // elements of type bool are only moved, not summed
  const DType dtype = x.dtype == DType::boolean ? DType::uint8 : x.dtype;
  // Signed integers are passed as unsigned integers, because sums with weights of 1 have the same bits.
  return dispatch_order(lowering, dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    if constexpr (is_half_type<T>)
      unsupported(lowering, dtype);
    else
      return std::make_unique<ResizeKernel<T>>(lowering, std::move(plan));
  });
}

}  // namespace

const Kernels resize_kernels("resize", [] {
  define_kernel("resize_nearest", lower_resize<false>);
  define_kernel("resize_bilinear", lower_resize<false>);
  define_kernel("resize_nearest_gradient", lower_resize<true>);
  define_kernel("resize_bilinear_gradient", lower_resize<true>);
});

}  // namespace mpsgraph::cpu
