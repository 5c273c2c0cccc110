// Fourier transforms along axes: fast_fourier_transform, real_to_hermitean_fft, hermitean_to_real_fft.
//
// Axes are transformed one after another. The signals along an axis are divided among the threads: real rows are
// transformed as complex rows of half the length, short signals side by side in lanes, and long signals individually
// (fourier_plan.h). For other layouts, the elements of each signal are gathered first. The reference kernel sums the n
// products of each point in double.
#include <complex>
#include <tuple>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/fourier/fourier_plan.h"
#include "backends/cpu/parallel.h"
#include "core/ops/fourier_transform.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t longest_lanes = 8192;  // maximum points per signal; lanes of longer signals do not fit in cache
constexpr int64_t least_points = 16384;  // minimum points per thread, about ten microseconds of work

enum class Kind { complex, real_to_hermitean, hermitean_to_real };

// A transform along the middle axis of [outer, n, inner]. Only the first n / 2 + 1 points of a Hermitian signal are
// stored.
struct Axis {
  Kind kind = Kind::complex;
  int64_t outer = 1, n = 1, inner = 1;
  bool inverse = false;
  double scale = 1;

  int64_t half() const { return n / 2 + 1; }
  int64_t from_points() const { return kind == Kind::hermitean_to_real ? half() : n; }
  int64_t to_points() const { return kind == Kind::real_to_hermitean ? half() : n; }
  int64_t signals() const { return outer * inner; }
  int64_t element(int64_t signal, int64_t points, int64_t j) const {
    return (signal / inner * points + j) * inner + signal % inner;
  }
};

// Access to single elements in any layout, which reduces every transform to a forward complex one: inverse transforms
// exchange real and imaginary parts or, if the signal is real, take the conjugate.
template <class T>
struct Elements {
  Axis axis;

  // Return point j of a signal. Points that a Hermitian signal does not store are reconstructed.
  std::pair<T, T> get(const T* from, int64_t signal, int64_t j) const {
    if (axis.kind == Kind::real_to_hermitean) return {from[axis.element(signal, axis.n, j)], T(0)};
    const bool hermitean = axis.kind == Kind::hermitean_to_real, mirrored = hermitean && 2 * j > axis.n;
    const T* x = from + 2 * axis.element(signal, axis.from_points(), mirrored ? axis.n - j : j);
    const bool real = hermitean && (j == 0 || 2 * j == axis.n);
    const T re = x[0], im = real ? T(0) : mirrored ? -x[1] : x[1];
    return axis.inverse ? std::pair(im, re) : std::pair(re, im);
  }

  template <class Value>
  void put(T* to, int64_t signal, int64_t j, Value re, Value im) const {
    const int64_t at = axis.element(signal, axis.to_points(), j);
    const auto scaled = [&](Value x) { return static_cast<T>(x * static_cast<Value>(axis.scale)); };
    if (axis.kind == Kind::real_to_hermitean) {
      to[2 * at] = scaled(re), to[2 * at + 1] = scaled(axis.inverse ? -im : im);
      return;
    }
    if (axis.inverse) std::swap(re, im);
    if (axis.kind == Kind::hermitean_to_real)
      to[at] = scaled(re);
    else
      to[2 * at] = scaled(re), to[2 * at + 1] = scaled(im);
  }
};

template <class T>
class AxisTransform {
 public:
  explicit AxisTransform(const Axis& axis)
      : axis_(axis),
        elements_{axis},
        functions_(fourier_functions<T>()),
        halved_(axis.kind != Kind::complex && axis.n % 2 == 0 && axis.inner == 1),
        half_(halved_ ? axis.n : 2),
        signal_(halved_ ? axis.n / 2 : axis.n, functions_.lanes),
        scale_(static_cast<T>(axis.scale)) {
    one_by_one_ = signal_.convolution || signal_.n > longest_lanes || (axis.inner == 1 && signal_.n1 > 0);
    if (!one_by_one_) lanes_ = LanePlan<T>(signal_.n);
  }

  size_t work_bytes() const { return work() * sizeof(T) * static_cast<size_t>(thread_count()); }

  void run(const T* from, T* to, T* work) const {
    const int64_t lanes = functions_.lanes;
    if (one_by_one_) return share(axis_.signals(), from, to, work, &AxisTransform::signal);
    if (axis_.kind == Kind::complex && axis_.inner >= lanes)
      return share(axis_.outer * blocks(axis_.inner), from, to, work, &AxisTransform::columns);
    const bool rows = axis_.inner == 1 && (axis_.kind == Kind::complex || halved_);
    share(blocks(axis_.signals()), from, to, work, rows ? &AxisTransform::rows : &AxisTransform::scattered);
  }

 private:
  using Unit = void (AxisTransform::*)(int64_t unit, const T* from, T* to, T* work) const;

  int64_t blocks(int64_t count) const { return (count + functions_.lanes - 1) / functions_.lanes; }
  // Return the size of one plane of a signal in elements of type T, rounded up to entire vectors so that the next plane
  // also begins at a cache line.
  int64_t room() const { return blocks(signal_.n + 1 + functions_.lanes) * functions_.lanes; }
  size_t work() const {  // scratch elements of type T per thread
    const size_t one = static_cast<size_t>(2 * room()) + signal_.work();
    return one_by_one_ ? one : std::max(one, static_cast<size_t>(6 * functions_.lanes * (signal_.n + 1)));
  }

  void share(int64_t units, const T* from, T* to, T* work, Unit unit) const {
    const int64_t parts =
        std::clamp<int64_t>(axis_.signals() * axis_.n / least_points, 1, std::min<int64_t>(units, thread_count()));
    const int64_t pieces = parts > 1 ? std::min(units, parts * items_per_thread) : 1;
    parallel_items(pieces, [&](int64_t piece, int64_t member) {
      T* own = work + static_cast<size_t>(member) * this->work();
      for (int64_t i = units * piece / pieces; i < units * (piece + 1) / pieces; ++i) {
        poll_run();
        (this->*unit)(i, from, to, own);
      }
    });
  }

  // Transform signals in lanes after gathering their elements one by one.
  void scattered(int64_t unit, const T* from, T* to, T* work) const {
    const int64_t first = unit * functions_.lanes;
    some_lanes(first, std::min<int64_t>(functions_.lanes, axis_.signals() - first), from, to, work);
  }
  void some_lanes(int64_t first, int64_t count, const T* from, T* to, T* work) const {
    const int64_t lanes = functions_.lanes;
    for (int64_t j = 0; j < axis_.n; ++j) {
      T* point = work + 2 * lanes * j;
      std::fill_n(point, 2 * lanes, T(0));
      for (int64_t i = 0; i < count; ++i) std::tie(point[i], point[lanes + i]) = elements_.get(from, first + i, j);
    }
    functions_.side_by_side(lanes_, work, work + 2 * lanes * axis_.n);
    for (int64_t j = 0; j < axis_.to_points(); ++j) {
      const T* point = work + 2 * lanes * j;
      for (int64_t i = 0; i < count; ++i) elements_.put(to, first + i, j, point[i], point[lanes + i]);
    }
  }

  // Transform adjacent complex signals (columns) in lanes.
  void columns(int64_t unit, const T* from, T* to, T* work) const {
    const int64_t column = unit % blocks(axis_.inner) * functions_.lanes;
    const int64_t first = unit / blocks(axis_.inner) * axis_.inner + column;
    const int64_t count = std::min<int64_t>(functions_.lanes, axis_.inner - column);
    if (count < functions_.lanes) return some_lanes(first, count, from, to, work);
    const int64_t at = 2 * axis_.element(first, axis_.n, 0);
    functions_.columns(lanes_, from + at, to + at, axis_.inner, axis_.inverse, scale_, work);
  }

  // Transform short rows in lanes: complex rows, or real rows as complex rows of half the length.
  void rows(int64_t unit, const T* from, T* to, T* work) const {
    const int64_t lanes = functions_.lanes, first = unit * lanes, m = lanes_.n;
    if (first + lanes > axis_.signals()) {  // fewer rows are left than there are lanes
      for (int64_t i = first; i < axis_.signals(); ++i) signal(i, from, to, work);
      return;
    }
    T *data = work, *last = data + 2 * lanes * m, *room = last + 2 * lanes;
    from += 2 * first * (axis_.kind == Kind::hermitean_to_real ? m + 1 : m);
    to += 2 * first * (axis_.kind == Kind::real_to_hermitean ? m + 1 : m);
    switch (axis_.kind) {
      case Kind::complex:
        functions_.rows_to_lanes(from, m, data, m, axis_.inverse);
        functions_.side_by_side(lanes_, data, room);
        return functions_.lanes_to_rows(data, to, m, m, axis_.inverse, scale_, scale_);
      case Kind::real_to_hermitean:
        functions_.rows_to_lanes(from, m, data, m, false);
        functions_.side_by_side(lanes_, data, room);
        std::copy_n(data, 2 * lanes, last);
        functions_.pairs_of_lanes(half_, data, T(0.5), T(0.5));
        return functions_.lanes_to_rows(data, to, m + 1, m + 1, false, scale_, axis_.inverse ? -scale_ : scale_);
      case Kind::hermitean_to_real:
        functions_.rows_to_lanes(from, m + 1, data, m + 1, false);
        std::fill_n(data + lanes, lanes, T(0));
        std::fill_n(last + lanes, lanes, T(0));
        functions_.pairs_of_lanes(half_, data, T(1), axis_.inverse ? T(-1) : T(1));
        functions_.side_by_side(lanes_, data, room);
        return functions_.lanes_to_rows(data, to, m, m, false, scale_, -scale_);
    }
  }

  // Transform a single signal.
  void signal(int64_t i, const T* from, T* to, T* work) const {
    const int64_t m = signal_.n;
    T *re = work, *im = re + room(), *rest = im + room();
    const auto transform = [&](T* a, T* b) { functions_.signal(signal_, a, b, a, b, rest); };
    if (axis_.kind == Kind::complex && axis_.inner == 1 && signal_.long_sides()) {
      const int64_t ahead = i + 1 < axis_.signals() ? 2 * m : 0;
      functions_.complex_signal(signal_, from + 2 * i * m, to + 2 * i * m, ahead, axis_.inverse, scale_, rest);
    } else if (axis_.kind == Kind::complex && axis_.inner == 1) {
      T *a = axis_.inverse ? im : re, *b = axis_.inverse ? re : im;
      functions_.split(from + 2 * i * m, a, b, m);
      transform(re, im);
      functions_.join(a, b, to + 2 * i * m, m, scale_, scale_);
    } else if (halved_ && axis_.kind == Kind::real_to_hermitean) {
      functions_.split(from + i * axis_.n, re, im, m);
      transform(re, im);
      re[m] = re[0], im[m] = im[0];
      functions_.pairs(half_, re, im, T(0.5), T(0.5));
      functions_.join(re, im, to + 2 * i * (m + 1), m + 1, scale_, axis_.inverse ? -scale_ : scale_);
    } else if (halved_) {
      functions_.split(from + 2 * i * (m + 1), re, im, m + 1);
      im[0] = im[m] = 0;
      functions_.pairs(half_, re, im, T(1), axis_.inverse ? T(-1) : T(1));
      transform(re, im);
      functions_.join(re, im, to + i * axis_.n, m, scale_, -scale_);
    } else {
      for (int64_t j = 0; j < m; ++j) std::tie(re[j], im[j]) = elements_.get(from, i, j);
      transform(re, im);
      for (int64_t j = 0; j < axis_.to_points(); ++j) elements_.put(to, i, j, re[j], im[j]);
    }
  }

  const Axis axis_;
  const Elements<T> elements_;
  const FourierFunctions<T>& functions_;
  const bool halved_;  // whether real rows are transformed as complex rows of half the length
  const HalfPlan<T> half_;
  const FourierPlan<T> signal_;
  const T scale_;
  bool one_by_one_;
  LanePlan<T> lanes_;
};

// The reference kernel, which evaluates the definition of the transform point by point.
template <class T>
class PlainTransform {
 public:
  explicit PlainTransform(const Axis& axis) : axis_(axis), elements_{axis} {
    for (int64_t k = 0; k < axis.n; ++k) roots_.push_back(root_of_unity(k, axis.n));
  }
  size_t work_bytes() const { return static_cast<size_t>(axis_.n) * sizeof(std::complex<double>); }

  void run(const T* from, T* to, T* work) const {
    auto* points = reinterpret_cast<std::complex<double>*>(work);
    for (int64_t i = 0; i < axis_.signals(); ++i) {
      for (int64_t j = 0; j < axis_.n; ++j) {
        const auto [re, im] = elements_.get(from, i, j);
        points[j] = {re, im};
      }
      for (int64_t k = 0; k < axis_.to_points(); ++k) {
        if (k % 256 == 0) poll_run();
        std::complex<double> sum = 0;
        for (int64_t j = 0; j < axis_.n; ++j) sum += points[j] * roots_[static_cast<size_t>(j * k % axis_.n)];
        elements_.put(to, i, k, sum.real(), sum.imag());
      }
    }
  }

 private:
  const Axis axis_;
  const Elements<T> elements_;
  std::vector<std::complex<double>> roots_;
};

// The axes of an operation in the order in which they are transformed. Only the first step (real_to_hermitean) or the
// last step (hermitean_to_real) may transform real signals. The steps in between are complex and in place.
struct Program {
  struct Step {
    Axis axis;
    Slot from, to;
  };
  std::vector<Step> steps;
  bool widens = false;  // real input is converted to complex first
};

Program program_of(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Attributes& attributes = lowering.attributes();
  const Kind kind = is_float(x.dtype) && !lowering.operation().is("fast_fourier_transform") ? Kind::real_to_hermitean
                    : is_float(y.dtype)                                                     ? Kind::hermitean_to_real
                                                                                            : Kind::complex;
  std::vector<int> axes = ops::fourier_axes(attributes, static_cast<int>(x.dims.size()));
  const Dims& complex_dims = kind == Kind::hermitean_to_real ? x.dims : y.dims;
  const Dims& full_dims = kind == Kind::hermitean_to_real ? y.dims : x.dims;
  const auto axis_of = [&](int axis, Kind axis_kind) {
    const AxisSplit split(axis_kind == Kind::complex ? complex_dims : full_dims, axis);
    return Axis{axis_kind, split.outer, split.n, split.inner, attributes.boolean("inverse")};
  };
  Program program;
  program.widens = kind == Kind::complex && is_float(x.dtype);
  Slot from = program.widens ? y.slot : x.slot;
  const Slot complex_slot = kind == Kind::hermitean_to_real && axes.size() > 1 ? lowering.scratch(x.bytes()) : y.slot;
  if (kind == Kind::real_to_hermitean) {
    program.steps.push_back({axis_of(axes.back(), kind), from, y.slot});
    axes.pop_back();
    from = y.slot;
  }
  const std::vector<int> complex_axes(axes.begin(), axes.end() - (kind == Kind::hermitean_to_real));
  for (int axis : complex_axes) {
    program.steps.push_back({axis_of(axis, Kind::complex), from, complex_slot});
    from = complex_slot;
  }
  if (kind == Kind::hermitean_to_real) program.steps.push_back({axis_of(axes.back(), kind), from, y.slot});
  program.steps.back().axis.scale = ops::fourier_scale(attributes, full_dims);
  return program;
}

template <template <class> class Transform, class T>
class FourierKernel final : public Kernel {
 public:
  FourierKernel(Lowering& lowering, const Program& program)
      : x_(lowering.input(0)), y_(lowering.output()), widens_(program.widens) {
    size_t bytes = 0;
    for (const Program::Step& step : program.steps) {
      steps_.push_back({std::make_unique<const Transform<T>>(step.axis), step.from, step.to});
      bytes = std::max(bytes, steps_.back().transform->work_bytes());
    }
    work_ = lowering.scratch(bytes);
  }

  void run(Frame& frame) const override {
    if (widens_) {
      parallel_for(x_.elements(), 16384, [&](int64_t begin, int64_t end) {
        std::copy(frame.at<T>(x_.slot) + begin, frame.at<T>(x_.slot) + end, frame.at<std::complex<T>>(y_.slot) + begin);
      });
    }
    for (const Step& step : steps_)
      step.transform->run(frame.at<T>(step.from), frame.at<T>(step.to), frame.at<T>(work_));
  }

 private:
  struct Step {
    std::unique_ptr<const Transform<T>> transform;
    Slot from, to;
  };
  const Operand x_, y_;
  const bool widens_;
  std::vector<Step> steps_;
  Slot work_;
};

std::unique_ptr<Kernel> lower_fourier_transform(Lowering& lowering) {
  if (lowering.output().elements() == 0) return kernel([](Frame&) {});
  const Program program = program_of(lowering);
  return dispatch_float(lowering, real_type(lowering.output().dtype), [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    if constexpr (is_half_type<T>)
      unsupported(lowering, lowering.output().dtype);
    else
      return lowering.reference_only()
                 ? std::unique_ptr<Kernel>(std::make_unique<FourierKernel<PlainTransform, T>>(lowering, program))
                 : std::make_unique<FourierKernel<AxisTransform, T>>(lowering, program);
  });
}

}  // namespace

const Kernels fourier_transform_kernels("fourier_transform", [] {
  for (mpsgraph::Kind kind :
       mpsgraph::Kinds{"fast_fourier_transform", "real_to_hermitean_fft", "hermitean_to_real_fft"})
    define_kernel(kind, lower_fourier_transform);
});

}  // namespace mpsgraph::cpu
