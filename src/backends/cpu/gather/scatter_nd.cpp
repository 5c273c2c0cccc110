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

template <class V, class F>
decltype(auto) with_mode(const std::string& mode, const F& f) {
  if constexpr (!is_complex_type<V>) {
    if (mode == "mul") return f(Mul());
    if (mode == "div") return f(Div());
    if (mode == "min") return f(Min());
    if (mode == "max") return f(Max());
  }
  if (mode == "sub") return f(Sub());
  if (mode == "set") return f(Set());
  return f(Add());
}

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

template <class V, class U, class Combine>
void combine(const Shape3& s, V* y, const U* updates, const Combine& op, const Positions& positions,
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
      V* rows = y + row * s.n * s.inner;
      if (s.each && s.inner > 1) {
        for (int64_t pick = 0; pick < s.picks; ++pick)
          for (int64_t column = first; column < last; column += batch) {
            const int64_t count = std::min(batch, last - column);
            const U* from = updates + (row * s.picks + pick) * s.inner + column;
            positions.find(indices, row, pick, column, count, at);
            for (int64_t i = 0; i < count; ++i) {
              if (at[i] < low || at[i] >= high) continue;
              V& to = rows[at[i] * s.inner + column + i];
              to = op(to, static_cast<V>(from[i]));
            }
          }
        continue;
      }
      for (int64_t pick = 0; pick < s.picks; pick += batch) {
        const int64_t count = std::min(batch, s.picks - pick);
        const U* from = updates + (row * s.picks + pick) * s.inner;
        // Without columns, elements that have their own positions follow one another like picks.
        s.each ? positions.find(indices, row, 0, pick, count, at) : positions.find(indices, row, pick, 0, count, at);
        for (int64_t i = 0; i < count; ++i) {
          if (at[i] < low || at[i] >= high) continue;
          V* to = rows + at[i] * s.inner;
          for (int64_t j = first; j < last; ++j) to[j] = op(to[j], static_cast<V>(from[i * s.inner + j]));
        }
      }
    }
  });
}

std::unique_ptr<Kernel> scatter_kernel(Lowering& lowering, const Shape3& shape,
                                       const std::shared_ptr<const Positions>& positions) {
  const Operand data = lowering.input(0), updates = lowering.input(1), y = lowering.output();
  const Slot indices = lowering.input(2).slot;
  lowering.may_share(0, 0);
  return dispatch(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = Value<T>;
    const int64_t n = y.elements();
    const Slot values = is_half_type<T> ? lowering.scratch(static_cast<size_t>(n) * sizeof(V)) : y.slot;
    return with_mode<V>(lowering.attributes().string("mode"), [&](auto op) -> std::unique_ptr<Kernel> {
      return kernel([=](Frame& f) {
        V* to = f.at<V>(values);
        if constexpr (is_half_type<T>)
          std::copy_n(f.at<const T>(data.slot), n, to);
        else if (f.pointers[y.slot] != f.pointers[data.slot])
          copy_bytes(f.at<std::byte>(y.slot), f.at<std::byte>(data.slot), y.bytes());
        combine(shape, to, f.at<const T>(updates.slot), op, *positions, f.at<const std::byte>(indices));
        if constexpr (is_half_type<T>) std::copy_n(to, n, f.at<T>(y.slot));
      });
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

const Kernels kernels("scatter_nd", [] {
  define_kernel("scatter", lower_scatter);
  define_kernel("scatter_nd", lower_scatter_nd);
  define_kernel("scatter_along_axis", lower_scatter_along_axis);
});

}  // namespace mpsgraph::cpu
