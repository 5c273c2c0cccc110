// scatter, scatter_nd, and scatter_along_axis: combine updates into a copy of the data.
//
// The work is divided so that no position of the result is written by two threads: by rows and columns around the axis
// or, if there are few of these, by ranges of the axis. With ranges, each thread reads all indices and applies only the
// updates in its range. Updates of the same position are therefore applied in order, and repeated runs give bitwise
// identical results. Half precision is combined in float.

#include <array>
#include <complex>
#include <cstring>
#include <memory>
#include <optional>

#include "backends/cpu/gather/indices.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/shape/strided_copy.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// Computes a + b. In all combining functions, integers wrap, and division by zero gives 0.
struct Add {
  template <class V>
  V operator()(V a, V b) const {
    return static_cast<V>(static_cast<Accumulate<V>>(a) + static_cast<Accumulate<V>>(b));
  }
};
struct Sub {
  template <class V>
  V operator()(V a, V b) const {
    return static_cast<V>(static_cast<Accumulate<V>>(a) - static_cast<Accumulate<V>>(b));
  }
};
struct Mul {
  template <class V>
  V operator()(V a, V b) const {
    return static_cast<V>(static_cast<Accumulate<V>>(a) * static_cast<Accumulate<V>>(b));
  }
};
struct Div {
  template <class V>
  V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<V>)
        if (b == -1) return Sub()(V(0), a);
    }
    return static_cast<V>(a / b);
  }
};
// If either operand is NaN, the result is NaN.
struct Min {
  template <class V>
  V operator()(V a, V b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class V>
  V operator()(V a, V b) const {
    return b > a || b != b ? b : a;
  }
};
struct Set {
  template <class V>
  V operator()(V, V b) const {
    return b;
  }
};

// Finds where updates are applied. find() returns positions in [0, n) for `count` updates of a row, starting at `pick`
// and `column`; updates with positions outside this range are skipped. The updates are consecutive picks (entries of
// the index tensor) or, if every element has its own position, consecutive columns. find() is virtual, because
// compiling every way to find positions for every mode and element type would produce thousands of loops.
class Positions {
 public:
  virtual ~Positions() = default;
  virtual void find(const std::byte* indices, int64_t row, int64_t pick, int64_t column, int64_t count,
                    int64_t* to) const = 0;
};
// Build a Positions object from f(indices, row, pick, column), which returns the position of one update.
template <bool each, class F>
std::shared_ptr<const Positions> positions(F f) {
  struct Found final : Positions {
    explicit Found(F f) : f(std::move(f)) {}
    void find(const std::byte* indices, int64_t row, int64_t pick, int64_t column, int64_t count,
              int64_t* to) const override {
      for (int64_t i = 0; i < count; ++i)
        to[i] = each ? f(indices, row, pick, column + i) : f(indices, row, pick + i, column);
    }
    F f;
  };
  return std::make_shared<Found>(std::move(f));
}

// The result has shape [rows, n, inner], and the updates have shape [rows, picks, inner]. The `inner` elements of an
// update share one position or, with `each`, every element has its own position.
struct Shape3 {
  int64_t rows, n, inner, picks;
  bool each;
};

// The operations of one mode on one element type. The operations are function pointers, so that the loops over
// positions are compiled only once.
struct Combine {
  // For each i < count with a position at[i] in [low, high), combine from[i] into to[at[i] * inner + i].
  void (*elements)(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                   int64_t count);
  // For each i < count with a position at[i] in [low, high), combine from[i * inner + j] into to[at[i] * inner + j],
  // for j in [first, last).
  void (*runs)(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
               int64_t count, int64_t first, int64_t last);
  size_t bytes;  // bytes per element
};

constexpr int64_t most_at_once = 128;  // maximum positions per call of find()

template <class V, class Op>
void combine_elements(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                      int64_t count) {
  auto* rows = reinterpret_cast<V*>(to);
  const auto* updates = reinterpret_cast<const V*>(from);
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < low || at[i] >= high) continue;
    V& value = rows[at[i] * inner + i];
    value = Op()(value, updates[i]);
  }
}
template <class V, class Op>
void combine_runs(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                  int64_t count, int64_t first, int64_t last) {
  auto* values = reinterpret_cast<V*>(to);
  const auto* updates = reinterpret_cast<const V*>(from);
  const auto room = static_cast<uint64_t>(high - low);
  // The updates in the range are collected without branches, which would be unpredictable when threads divide the axis
  // into ranges.
  uint8_t within[most_at_once];
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    within[found] = static_cast<uint8_t>(i);
    found += static_cast<uint64_t>(at[i] - low) < room;
  }
  for (int64_t k = 0; k < found; ++k) {
    const int64_t i = within[k];
    if (inner == 1) {
      values[at[i]] = Op()(values[at[i]], updates[i]);
      continue;
    }
    V* run = values + at[i] * inner;
    for (int64_t j = first; j < last; ++j) run[j] = Op()(run[j], updates[i * inner + j]);
  }
}
template <class V, class Op>
constexpr Combine combine_of{combine_elements<V, Op>, combine_runs<V, Op>, sizeof(V)};

// Return the operations of `mode` on elements of `dtype`. Integer sums and products, and operations that only copy, use
// unsigned types.
Combine combine_for(const std::string& mode, DType dtype) {
  if (mode == "set")
    return dispatch_size(size_of(dtype), [](auto type) {
      using T = typename decltype(type)::type;
      return combine_of<T, Set>;
    });
  return dispatch(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Ring = std::conditional_t<std::is_same_v<T, bool>, bool, typename UnsignedOf<T>::type>;
    if constexpr (is_half_type<T>) {
      return combine_of<T, Set>;  // with_halves_in_float combines half precision in float
    } else {
      if (mode == "sub") return combine_of<Ring, Sub>;
      if constexpr (!is_complex_type<T>) {
        if (mode == "mul") return combine_of<Ring, Mul>;
        if (mode == "div") return combine_of<T, Div>;
        if (mode == "min") return combine_of<T, Min>;
        if (mode == "max") return combine_of<T, Max>;
      }
      return combine_of<Ring, Add>;
    }
  });
}

void combine(const Shape3& s, std::byte* y, const std::byte* updates, const Combine& op, const Positions& positions,
             const std::byte* indices) {
  const int64_t threads = thread_count(), columns = std::clamp<int64_t>(s.inner / 64, 1, threads);
  const int64_t ranges = s.rows * columns >= threads ? 1 : std::clamp<int64_t>(s.n, 1, threads);
  const int64_t parts = columns * ranges;
  parallel_for(s.rows * parts, grain_for(s.picks * s.inner / columns * 8), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / parts, range = unit / columns % ranges, column = unit % columns;
      const int64_t low = s.n * range / ranges, high = s.n * (range + 1) / ranges;
      const int64_t first = s.inner * column / columns, last = s.inner * (column + 1) / columns;
      constexpr int64_t batch = most_at_once;
      int64_t at[batch];
      const auto value = [&](int64_t i) { return y + static_cast<size_t>(row * s.n * s.inner + i) * op.bytes; };
      const auto update = [&](int64_t pick, int64_t i) {
        return updates + static_cast<size_t>((row * s.picks + pick) * s.inner + i) * op.bytes;
      };
      if (s.each && s.inner > 1) {
        for (int64_t pick = 0; pick < s.picks; ++pick)
          for (int64_t column = first; column < last; column += batch) {
            if (pick % 256 == 0) poll_run();
            const int64_t count = std::min(batch, last - column);
            positions.find(indices, row, pick, column, count, at);
            op.elements(value(column), update(pick, column), at, low, high, s.inner, count);
          }
        continue;
      }
      for (int64_t pick = 0; pick < s.picks; pick += batch) {
        const int64_t count = std::min(batch, s.picks - pick);
        if (pick / batch % 64 == 0) poll_run();
        // If `inner` is 1, elements that have their own positions are laid out in memory like whole picks (entries of
        // the index tensor).
        s.each ? positions.find(indices, row, 0, pick, count, at) : positions.find(indices, row, pick, 0, count, at);
        op.runs(value(0), update(pick, 0), at, low, high, s.inner, count, first, last);
      }
    }
  });
}

// If all elements of the data are equal, as in the zeros of a gradient, return that element. Filling the result with it
// is faster than copying the data.
using Element = std::array<std::byte, sizeof(std::complex<double>)>;
std::optional<Element> element_of_all(Lowering& lowering) {
  const Operation& made = *lowering.operation().input(0)->operation;
  const ConstantPtr value = made.is("constant") ? made.attributes.data("value") : nullptr;
  if (!value || !value->is_splat()) return {};
  static_cast<void>(lowering.constant(0));  // the kernel does not read this operand, so no converted copy is kept
  Element element{};
  const DType dtype = lowering.output().dtype;
  const auto of_half = static_cast<float>(value->scalar());
  const void* from = value->dtype() == dtype ? static_cast<const void*>(value->bytes()) : &of_half;
  std::memcpy(element.data(), from, size_of(dtype));
  return element;
}

std::unique_ptr<Kernel> scatter_kernel(Lowering& lowering, const Shape3& shape,
                                       const std::shared_ptr<const Positions>& positions) {
  const Operand data = lowering.input(0), updates = lowering.input(1), y = lowering.output();
  const Slot indices = lowering.input(2).slot;
  lowering.may_share(0, 0);
  const std::optional<Element> alike = element_of_all(lowering);
  const Combine op = combine_for(lowering.attributes().string("mode"), y.dtype);
  return kernel([=](Frame& f) {
    std::byte* to = f.at<std::byte>(y.slot);
    if (alike)
      fill(to, alike->data(), op.bytes, y.elements());
    else if (to != f.pointers[data.slot])
      copy_bytes(to, f.at<std::byte>(data.slot), y.bytes());
    combine(shape, to, f.at<const std::byte>(updates.slot), op, *positions, f.at<const std::byte>(indices));
  });
}

std::unique_ptr<Kernel> scatter_rows(Lowering& lowering) {
  const Operand y = lowering.output(), indices = lowering.input(2);
  const AxisSplit s(y.dims, lowering.attributes().integer("axis"));
  const Shape3 shape{s.outer, s.n, s.inner, indices.dims[0], false};
  return with_indices(indices.dtype, [&](auto read) {
    return scatter_kernel(
        lowering, shape,
        positions<false>([read](const std::byte* index, int64_t, int64_t pick, int64_t) { return read(index, pick); }));
  });
}

std::unique_ptr<Kernel> scatter_nd(Lowering& lowering) {
  const Operand y = lowering.output(), indices = lowering.input(2);
  const NdPicks p(lowering.attributes().integer("batch_dimensions"), y.dims, indices.dims);
  const Shape3 shape{p.batch, p.n, p.inner, p.picks, false};
  return with_indices(indices.dtype, [&](auto read) {
    return scatter_kernel(lowering, shape,
                          positions<false>([read, p](const std::byte* index, int64_t row, int64_t pick, int64_t) {
                            return p.position(read, index, row * p.picks + pick);
                          }));
  });
}

std::unique_ptr<Kernel> scatter_along_axis(Lowering& lowering) {
  const Operand y = lowering.output(), indices = lowering.input(2);
  const int64_t axis = lowering.attributes().integer("axis");
  const AxisSplit s(y.dims, axis), picks(indices.dims, axis);
  const Shape3 shape{s.outer, s.n, s.inner, picks.n, true};
  return with_indices(indices.dtype, [&](auto read) {
    return scatter_kernel(
        lowering, shape,
        positions<true>([read, shape](const std::byte* index, int64_t row, int64_t pick, int64_t column) {
          return read(index, (row * shape.picks + pick) * shape.inner + column);
        }));
  });
}

// Combine half precision in float, except in mode "set", which only copies.
template <Lower lower>
std::unique_ptr<Kernel> with_halves_in_float(Lowering& lowering) {
  const DType dtype = lowering.output().dtype, wide = wide_float(dtype);
  if (wide == dtype || lowering.attributes().string("mode") == "set") return lower(lowering);
  return widened_kernel(lowering, dtype, wide, lower);
}

}  // namespace

const Kernels scatter_nd_kernels("scatter_nd", [] {
  define_kernel("scatter", with_halves_in_float<scatter_rows>);
  define_kernel("scatter_nd", with_halves_in_float<scatter_nd>);
  define_kernel("scatter_along_axis", with_halves_in_float<scatter_along_axis>);
});

}  // namespace mpsgraph::cpu
