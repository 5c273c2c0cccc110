// scatter, scatter_nd and scatter_along_axis: updates combined into a copy of data.
//
// Work is cut so that no place of the result has two writers: by rows and columns around the axis, and where these are
// few by ranges of the axis, each writer walking all indices and taking those of its range. So updates of one place
// come in their order, and the same run gives the same bits. Halves are combined in float.

#include <cstring>
#include <memory>

#include "backends/cpu/gather/indices.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/shape/strided_copy.h"

namespace mpsgraph::cpu {
namespace {

// a ∘ b. Integers wrap, and divided by zero they give 0.
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
// NaN stays, from whichever side.
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

// Where updates go: find() gives for `count` updates of a row, from `pick` and `column` on, positions in [0, n) or
// others, which are skipped. It goes along the picks, or where every element has its position along the columns. Behind
// a call, because every way to find them times every mode and element type would be thousands of loops to compile.
class Positions {
 public:
  virtual ~Positions() = default;
  virtual void find(const std::byte* indices, int64_t row, int64_t pick, int64_t column, int64_t count,
                    int64_t* to) const = 0;
};
// From f(indices, row, pick, column), which finds one.
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

// The result is [rows, n, inner], the updates [rows, picks, inner].
// Runs of `inner` elements go to one position, or with `each` every element has its own.
struct Shape3 {
  int64_t rows, n, inner, picks;
  bool each;
};

// What a mode does to elements of one type: V in the result, U in the updates. Behind pointers, so that what walks over
// positions is compiled once.
struct Combine {
  // to[at[i] * inner + i] ∘ from[i] for positions in [low, high), i < count.
  void (*elements)(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                   int64_t count);
  // The same for runs: to[at[i] * inner + j] ∘ from[i * inner + j], j in [first, last).
  void (*runs)(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
               int64_t count, int64_t first, int64_t last);
  size_t value_bytes, update_bytes;
};

template <class V, class U, class Op>
void combine_elements(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                      int64_t count) {
  auto* rows = reinterpret_cast<V*>(to);
  const auto* updates = reinterpret_cast<const U*>(from);
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < low || at[i] >= high) continue;
    V& value = rows[at[i] * inner + i];
    value = Op()(value, static_cast<V>(updates[i]));
  }
}
template <class V, class U, class Op>
void combine_runs(std::byte* to, const std::byte* from, const int64_t* at, int64_t low, int64_t high, int64_t inner,
                  int64_t count, int64_t first, int64_t last) {
  const auto* updates = reinterpret_cast<const U*>(from);
  if (inner == 1) {
    auto* values = reinterpret_cast<V*>(to);
    const auto room = static_cast<uint64_t>(high - low);
    for (int64_t i = 0; i < count; ++i)
      if (static_cast<uint64_t>(at[i] - low) < room) values[at[i]] = Op()(values[at[i]], static_cast<V>(updates[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < low || at[i] >= high) continue;
    V* run = reinterpret_cast<V*>(to) + at[i] * inner;
    for (int64_t j = first; j < last; ++j) run[j] = Op()(run[j], static_cast<V>(updates[i * inner + j]));
  }
}
template <class V, class U, class Op>
constexpr Combine combine_of{combine_elements<V, U, Op>, combine_runs<V, U, Op>, sizeof(V), sizeof(U)};

// `mode` of elements of `dtype`. Sums and products of integers, and what is only moved, are those of unsigned ones.
Combine combine_for(const std::string& mode, DType dtype) {
  if (mode == "set" && dtype != DType::float16 && dtype != DType::bfloat16)
    return dispatch_size(size_of(dtype), [](auto type) {
      using T = typename decltype(type)::type;
      return combine_of<T, T, Set>;
    });
  return dispatch(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = Value<T>;
    using Unsigned = typename UnsignedOf<T>::type;
    using Ring = std::conditional_t<std::is_same_v<T, bool>, bool, std::conditional_t<is_half_type<T>, V, Unsigned>>;
    using U = std::conditional_t<is_half_type<T>, T, Ring>;
    if (mode == "sub") return combine_of<Ring, U, Sub>;
    if constexpr (is_half_type<T>)
      if (mode == "set") return combine_of<V, T, Set>;
    if constexpr (!is_complex_type<T>) {
      if (mode == "mul") return combine_of<Ring, U, Mul>;
      if (mode == "div") return combine_of<V, T, Div>;
      if (mode == "min") return combine_of<V, T, Min>;
      if (mode == "max") return combine_of<V, T, Max>;
    }
    return combine_of<Ring, U, Add>;
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
      constexpr int64_t batch = 128;
      int64_t at[batch];
      const auto value = [&](int64_t i) { return y + static_cast<size_t>(row * s.n * s.inner + i) * op.value_bytes; };
      const auto update = [&](int64_t pick, int64_t i) {
        return updates + static_cast<size_t>((row * s.picks + pick) * s.inner + i) * op.update_bytes;
      };
      if (s.each && s.inner > 1) {
        for (int64_t pick = 0; pick < s.picks; ++pick)
          for (int64_t column = first; column < last; column += batch) {
            const int64_t count = std::min(batch, last - column);
            positions.find(indices, row, pick, column, count, at);
            op.elements(value(column), update(pick, column), at, low, high, s.inner, count);
          }
        continue;
      }
      for (int64_t pick = 0; pick < s.picks; pick += batch) {
        const int64_t count = std::min(batch, s.picks - pick);
        // Without columns, elements that have their own positions follow one another like picks.
        s.each ? positions.find(indices, row, 0, pick, count, at) : positions.find(indices, row, pick, 0, count, at);
        op.runs(value(0), update(pick, 0), at, low, high, s.inner, count, first, last);
      }
    }
  });
}

std::unique_ptr<Kernel> scatter_kernel(Lowering& lowering, const Shape3& shape,
                                       const std::shared_ptr<const Positions>& positions) {
  const Operand data = lowering.input(0), updates = lowering.input(1), y = lowering.output();
  const Slot indices = lowering.input(2).slot;
  lowering.may_share(0, 0);
  // Elements that are all alike, such as the zeros of a gradient, are written and not copied.
  const Operation& made = *lowering.operation().input(0)->operation;
  const ConstantPtr alike =
      made.is("constant") && made.attributes.data("value")->is_splat() ? made.attributes.data("value") : nullptr;
  const Combine op = combine_for(lowering.attributes().string("mode"), y.dtype);
  const auto sums = [=](Frame& f, std::byte* to) {
    combine(shape, to, f.at<const std::byte>(updates.slot), op, *positions, f.at<const std::byte>(indices));
  };
  if (y.dtype != DType::float16 && y.dtype != DType::bfloat16)
    return kernel([=](Frame& f) {
      if (alike)
        fill(f.at<std::byte>(y.slot), alike->bytes(), size_of(y.dtype), y.elements());
      else if (f.pointers[y.slot] != f.pointers[data.slot])
        copy_bytes(f.at<std::byte>(y.slot), f.at<std::byte>(data.slot), y.bytes());
      sums(f, f.at<std::byte>(y.slot));
    });
  const int64_t n = y.elements();
  const Slot values = lowering.scratch(static_cast<size_t>(n) * sizeof(float));
  return dispatch_float(lowering, y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      std::copy_n(f.at<const T>(data.slot), n, f.at<float>(values));
      sums(f, f.at<std::byte>(values));
      std::copy_n(f.at<const float>(values), n, f.at<T>(y.slot));
    });
  });
}

std::unique_ptr<Kernel> lower_scatter(Lowering& lowering) {
  const Operand y = lowering.output(), indices = lowering.input(2);
  const AxisSplit s(y.dims, lowering.attributes().integer("axis"));
  const Shape3 shape{s.outer, s.n, s.inner, indices.dims[0], false};
  return with_indices(indices.dtype, [&](auto read) {
    return scatter_kernel(
        lowering, shape,
        positions<false>([read](const std::byte* index, int64_t, int64_t pick, int64_t) { return read(index, pick); }));
  });
}

std::unique_ptr<Kernel> lower_scatter_nd(Lowering& lowering) {
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

std::unique_ptr<Kernel> lower_scatter_along_axis(Lowering& lowering) {
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

}  // namespace

const Kernels scatter_nd_kernels("scatter_nd", [] {
  define_kernel("scatter", lower_scatter);
  define_kernel("scatter_nd", lower_scatter_nd);
  define_kernel("scatter_along_axis", lower_scatter_along_axis);
});

}  // namespace mpsgraph::cpu
