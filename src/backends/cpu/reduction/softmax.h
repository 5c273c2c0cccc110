// The shared core of softmax, log-softmax, and softmax cross-entropy along any axis, in float or double.
//
// The tensor is treated as [outer, n, inner], and softmax runs over n. The tensor is divided into units that fit in
// cache: blocks of whole rows if the axis is the last one, otherwise blocks of adjacent columns. The elements of a unit
// form groups that are reduced together, usually one group per softmax. If there are few columns, the elements of each
// softmax are distributed over several groups, so that vectors are filled, and the results of these groups are combined
// at the end of each reduction. Half precision is first converted to float. Rows of floats use the widest available
// vectors (softmax_float.h).
#pragma once

#include <array>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduction/row_reductions.h"
#include "backends/cpu/reduction/softmax_float.h"

namespace mpsgraph::cpu {

struct SoftmaxUnit {
  static constexpr int64_t max_groups = 256;
  int64_t first, groups, n;
  int64_t group_stride, item_stride;
  int64_t first_group;  // index in the tensor of the unit's first softmax
  // Set only if there are few columns, so that the elements of a column are distributed over several groups: `columns`
  // is the number of columns, and the groups belong to columns 0, 1, ..., repeated in order. `rest` is the number of
  // elements after the last position that fills all groups.
  int64_t columns = 0, rest = 0;

  bool rows() const { return item_stride == 1; }
  // Return the position in memory of item i of group g.
  int64_t at(int64_t g, int64_t i) const { return first + g * group_stride + i * item_stride; }
  // Combine the groups that belong to the same column, and store the result in each of these groups.
  template <class V, class Combine>
  void combine_columns(V* result, const Combine& combine) const {
    if (columns == 0) return;
    for (int64_t g = columns; g < groups; ++g) result[g % columns] = combine(result[g % columns], result[g]);
    for (int64_t g = columns; g < groups; ++g) result[g] = result[g - columns];
  }
};

// Call f(unit) for all units in parallel.
template <class F>
void for_softmax_units(const AxisSplit& s, const F& f) {
  constexpr int64_t most = SoftmaxUnit::max_groups;
  if (s.inner == 1) {
    const int64_t block = std::clamp<int64_t>(2048 / std::max<int64_t>(s.n, 1), 1, most),
                  units = (s.outer + block - 1) / block;
    return parallel_for(units, grain_for(block * s.n * 8), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit)
        f(SoftmaxUnit{unit * block * s.n, std::min(block, s.outer - unit * block), s.n, s.n, 1, unit * block});
    });
  }
  const int64_t block = std::min(most, s.inner), tiles = (s.inner + most - 1) / most;
  parallel_for(s.outer * tiles, grain_for(block * s.n * 8), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t outer = unit / tiles, column = unit % tiles * most;
      f(SoftmaxUnit{outer * s.n * s.inner + column, std::min(most, s.inner - column), s.n, 1, s.inner,
                    outer * s.inner + column});
    }
  });
}

// Like for_softmax_units, but if there are few columns, several positions along the axis are combined into wider units.
template <class F>
void for_wide_softmax_units(const AxisSplit& s, const F& f) {
  constexpr int64_t few = 16;
  if (s.inner == 1 || s.inner > few) return for_softmax_units(s, f);
  const int64_t together = std::clamp<int64_t>(s.n, 1, SoftmaxUnit::max_groups / s.inner), width = together * s.inner;
  parallel_for(s.outer, grain_for(s.n * s.inner * 8), [&](int64_t begin, int64_t end) {
    for (int64_t outer = begin; outer < end; ++outer)
      f(SoftmaxUnit{outer * s.n * s.inner, width, s.n / together, 1, width, outer * s.inner, s.inner,
                    s.n % together * s.inner});
  });
}

// Call f(group, element) for all elements of a unit, in memory order.
template <class F>
void for_elements(const SoftmaxUnit& u, const F& f) {
  if (u.rows()) {
    for (int64_t g = 0; g < u.groups; ++g)
      for (int64_t i = 0; i < u.n; ++i) f(g, u.first + g * u.n + i);
  } else {
    for (int64_t i = 0; i < u.n; ++i)
      for (int64_t g = 0; g < u.groups; ++g) f(g, u.first + i * u.item_stride + g);
    for (int64_t g = 0; g < u.rest; ++g) f(g, u.at(g, u.n));
  }
}

// Set result[g] to the combination of value(g, element) over all elements of group g, starting from `start`. combine
// must be associative up to rounding, because a row is reduced in 16 interleaved parts.
template <class V, class Combine, class Get>
void reduce_groups(const SoftmaxUnit& u, V start, V* result, const Combine& combine, const Get& value) {
  if (!u.rows()) {
    std::fill(result, result + u.groups, start);
    for (int64_t i = 0; i < u.n; ++i)
      for (int64_t g = 0; g < u.groups; ++g) result[g] = combine(result[g], value(g, u.first + i * u.item_stride + g));
    for (int64_t g = 0; g < u.rest; ++g) result[g] = combine(result[g], value(g, u.at(g, u.n)));
    u.combine_columns(result, combine);
    return;
  }
  constexpr int64_t lanes = 16;
  for (int64_t g = 0; g < u.groups; ++g) {
    const int64_t first = u.first + g * u.n;
    V all = start;
    int64_t i = 0;
    if (u.n >= lanes) {
      V lane[lanes];
      std::fill(lane, lane + lanes, start);
      for (; i + lanes <= u.n; i += lanes)
#pragma omp simd
        for (int64_t l = 0; l < lanes; ++l) lane[l] = combine(lane[l], value(g, first + i + l));
      for (const V& part : lane) all = combine(all, part);
    }
    for (; i < u.n; ++i) all = combine(all, value(g, first + i));
    result[g] = all;
  }
}

template <class V, class Get>
void sum_groups(const SoftmaxUnit& u, V* result, const Get& value) {
  reduce_groups(u, V(0), result, [](V a, V b) { return a + b; }, value);
}

template <class V>
void max_groups(const SoftmaxUnit& u, const V* x, V* result) {
  if (const RowReductions* rows = row_reductions(); rows && u.rows()) {
    for (int64_t g = 0; g < u.groups; ++g) result[g] = rows->of<V>().greatest(x + u.at(g, 0), u.n).value;
    return;
  }
  reduce_groups(
      u, -std::numeric_limits<V>::infinity(), result, [](V a, V b) { return b > a ? b : a; },
      [&](int64_t, int64_t i) { return x[i]; });
}

template <class V>
struct Exponent {
  TileFunction function = tile_function("exponent", std::is_same_v<V, float> ? DType::float32 : DType::float64, 0);
  void operator()(const V* x, V* y, int64_t n) const {
    const void* in = x;
    function(y, &in, n);
  }
  // Set y = e^x for all elements of a unit; x and y may be the same.
  void on(const SoftmaxUnit& u, const V* x, V* y) const {
    if (u.rows()) return (*this)(x + u.first, y + u.first, u.groups * u.n);
    for (int64_t i = 0; i < u.n; ++i) (*this)(x + u.at(0, i), y + u.at(0, i), u.groups);
    if (u.rest > 0) (*this)(x + u.at(0, u.n), y + u.at(0, u.n), u.rest);
  }
};

// Return whether the unit consists of float rows that fill at least half a vector.
template <class V>
bool in_rows(const SoftmaxUnit& u) {
  return std::is_same_v<V, float> && u.rows() && u.n >= 8;
}

// On a unit, set shift to the maximum of each group, y to e^(x - shift), and sum to the sum of each group of y.
// x and y may be the same.
template <class V>
void softmax_exponents(const SoftmaxUnit& u, const Exponent<V>& exponent, const V* x, V* y, V* shift, V* sum) {
  if constexpr (std::is_same_v<V, float>)
    if (in_rows<V>(u)) {
      for (int64_t g = 0; g < u.groups; ++g) {
        const RowExponents row = softmax_rows().exponents(x + u.at(g, 0), u.n, y + u.at(g, 0));
        shift[g] = row.largest, sum[g] = row.sum;
      }
      return;
    }
  max_groups(u, x, shift);
  for_elements(u, [&](int64_t g, int64_t i) { y[i] = x[i] - shift[g]; });
  exponent.on(u, y, y);
  if constexpr (std::is_same_v<V, double>)
    if (const RowReductions* rows = row_reductions(); rows && u.rows()) {
      for (int64_t g = 0; g < u.groups; ++g) sum[g] = rows->sums<V>().of_row(y + u.at(g, 0), u.n);
      return;
    }
  sum_groups(u, sum, [&](int64_t, int64_t i) { return y[i]; });
}

// Multiply each group of y by the group's factor.
template <class V>
void scale_groups(const SoftmaxUnit& u, const V* factors, V* y) {
  if constexpr (std::is_same_v<V, float>)
    if (in_rows<V>(u)) {
      for (int64_t g = 0; g < u.groups; ++g) softmax_rows().scale(factors[g], u.n, y + u.at(g, 0));
      return;
    }
  for_elements(u, [&](int64_t g, int64_t i) { y[i] *= factors[g]; });
}

// Set y = softmax(x) on a unit; x and y may be the same.
template <class V>
void softmax_unit(const SoftmaxUnit& u, const Exponent<V>& exponent, const V* x, V* y) {
  V shift[SoftmaxUnit::max_groups], sum[SoftmaxUnit::max_groups];
  softmax_exponents(u, exponent, x, y, shift, sum);
  for (int64_t g = 0; g < u.groups; ++g) sum[g] = V(1) / sum[g];
  scale_groups(u, sum, y);
}

// Build a kernel for all float types. make_run is called with a value of type V, either float or double, and returns
// the function that computes the kernel: run(array of const V* inputs, V* output, V* scratch). `scratch` has room for
// `extra` elements.
template <size_t inputs, class MakeRun>
std::unique_ptr<Kernel> float_kernel(Lowering& lowering, int64_t extra, const MakeRun& make_run) {
  std::array<Operand, inputs> in;
  for (size_t i = 0; i < inputs; ++i) in[i] = lowering.input(i);
  const Operand out = lowering.output();
  return dispatch_float(lowering, out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using V = Value<T>;
    int64_t converted = 0;
    if (is_half_type<T>) {
      for (const Operand& x : in) converted += x.elements();
      converted += out.elements();
    }
    const Slot scratch = lowering.scratch(static_cast<size_t>(converted + extra) * sizeof(V));
    return kernel([=, run = make_run(Type<V>{})](Frame& f) {
      std::array<const V*, inputs> x;
      V* rest = f.at<V>(scratch);
      if constexpr (is_half_type<T>) {
        for (size_t i = 0; i < inputs; ++i) {
          const T* from = f.at<T>(in[i].slot);
          x[i] = rest;
          for (int64_t n = in[i].elements(); n > 0; --n) *rest++ = *from++;
        }
        V* y = rest;
        run(x, y, rest + out.elements());
        T* to = f.at<T>(out.slot);
        for (int64_t i = 0; i < out.elements(); ++i) to[i] = T(y[i]);
      } else {
        for (size_t i = 0; i < inputs; ++i) x[i] = f.at<const V>(in[i].slot);
        run(x, f.at<V>(out.slot), rest);
      }
    });
  });
}

}  // namespace mpsgraph::cpu
