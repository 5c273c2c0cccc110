// Cumulative sums, products, and extrema, and the operations that their derivatives need.
//
// Apple's scans support only the last four axes, ignore NaN, and start extrema from the largest finite number. The
// scanned axis is therefore moved to the end, and extrema are computed on integer keys (order.h). MPSGraph has no scan
// for recurrences and complex products, so elements at distances of 1, 2, 4, ... are combined repeatedly instead.
#include "backends/metal/complex.h"
#include "backends/metal/indexing.h"
#include "backends/metal/order.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

using T = MPSGraphTensor*;

bool exclusive(const Lowering& l) { return l.attributes().boolean("exclusive"); }
bool reverse(const Lowering& l) { return l.attributes().boolean("reverse"); }

// Swap the last two of three axes.
T exchanged(const Lowering& l, T tensor) {
  const auto exchange = [&](T part) { return Steps(l).transpose(part, {0, 2, 1}); };
  if (!is_complex(l.dtype())) return exchange(tensor);
  return by_parts(l, {tensor}, [&](const GraphTensors& in) { return exchange(in[0]); });
}

// Reshape the operands to [rows, n], where n is the size of the scanned axis, apply `f`, and reshape the results back.
GraphTensors over_rows(const Lowering& l, const GraphTensors& inputs, const OfTensors& f) {
  const Steps s(l);
  const Lanes lanes(l.dims(), l.axis());
  GraphTensors rows;
  for (T input : inputs) {
    T row = s.reshape(input, lanes.dims());
    if (lanes.inner > 1) row = exchanged(l, row);
    rows.push_back(s.reshape(row, {lanes.outer * lanes.inner, lanes.n}));
  }
  T result = f(rows);
  if (lanes.inner > 1) result = exchanged(l, s.reshape(result, {lanes.outer, lanes.inner, lanes.n}));
  return {result};
}

// Shift the elements by `distance` and fill the gap with `filler`, of shape (1).
T shifted(const Lowering& l, T rows, int64_t distance, bool backwards, T filler) {
  const Steps s(l);
  const Dims dims = dims_of(rows.shape);
  T space = s.broadcast(s.reshape(filler, {1, 1}), {dims[0], distance});
  if (distance == dims[1]) return space;
  T kept = s.slice(rows, 1, backwards ? distance : 0, dims[1] - distance);
  return backwards ? s.concat({kept, space}, 1) : s.concat({space, kept}, 1);
}

// Unsigned integers are scanned as signed integers of the same width: sums and products have the same bits in both.
template <bool product>
T native_scan(const Lowering& l, T rows, DType dtype) {
  const Steps s(l);
  const DType as = dtype == DType::uint32 ? DType::int32 : dtype == DType::uint64 ? DType::int64 : dtype;
  if (as != dtype) rows = s.reinterpret(rows, as);
  T result = product ? [l.graph() cumulativeProductWithTensor:rows
                                                         axis:1
                                                    exclusive:exclusive(l)
                                                      reverse:reverse(l)
                                                         name:l.name()]
                     : [l.graph() cumulativeSumWithTensor:rows
                                                     axis:1
                                                exclusive:exclusive(l)
                                                  reverse:reverse(l)
                                                     name:l.name()];
  return as == dtype ? result : s.reinterpret(result, dtype);
}

GraphTensors lower_cumulative_sum(Lowering& l) {
  const DType as = is_complex(l.dtype()) ? DType::float32 : summed_as(l.dtype());
  return over_rows(l, {l.input()}, [&](const GraphTensors& rows) {
    return carried(l, l.dtype(), as, rows, [&](const GraphTensors& in) { return native_scan<false>(l, in[0], as); });
  });
}

// Linear functions y -> term + factor * y, one per element. `factor` and `term` hold one tensor, or two for the real
// and imaginary parts of complex numbers.
struct Linear {
  std::vector<T> factor, term;  // `term` is empty if only products are needed
};

std::vector<T> times(const Steps& s, const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() == 1) return {s.multiply(a[0], b[0])};
  return {s.subtract(s.multiply(a[0], b[0]), s.multiply(a[1], b[1])),
          s.add(s.multiply(a[0], b[1]), s.multiply(a[1], b[0]))};
}

// Compose the function of each element i with those of all elements before i: f_i(f_(i-1)(... f_0)), where each f_i(y)
// is term_i + factor_i y.
Linear composed(const Lowering& l, Linear x, bool backwards) {
  const Steps s(l);
  const int64_t n = dims_of(x.factor[0].shape)[1];
  T const zero = l.scalar(0, DType::float32);
  T const one = l.scalar(1, DType::float32);
  for (int64_t distance = 1; distance < n; distance *= 2) {
    Linear before = x;
    for (size_t i = 0; i < x.factor.size(); ++i)
      before.factor[i] = shifted(l, x.factor[i], distance, backwards, i == 0 ? one : zero);
    for (T __strong& term : before.term) term = shifted(l, term, distance, backwards, zero);
    if (!x.term.empty()) {
      const std::vector<T> carried_on = times(s, x.factor, before.term);
      for (size_t i = 0; i < x.term.size(); ++i) x.term[i] = s.add(x.term[i], carried_on[i]);
    }
    x.factor = times(s, x.factor, before.factor);
  }
  return x;
}

// Convert rows to float32. Return a vector of one real tensor, or of the real and imaginary parts if they are complex.
std::vector<T> parts(const Lowering& l, T rows) {
  if (!is_complex(l.dtype())) return {Steps(l).cast(rows, DType::float32)};
  const Parts both = parts_of(l, rows);
  return {both.re.tensor(), both.im.tensor()};
}

T whole(const Lowering& l, const std::vector<T>& parts) {
  if (!is_complex(l.dtype())) return Steps(l).cast(parts[0], l.dtype());
  return complex_tensor(l, {{l, parts[0]}, {l, parts[1]}});
}

GraphTensors lower_cumulative_product(Lowering& l) {
  return over_rows(l, {l.input()}, [&](const GraphTensors& rows) {
    if (!is_complex(l.dtype())) {
      const DType as = summed_as(l.dtype());
      return carried(l, l.dtype(), as, rows, [&](const GraphTensors& in) { return native_scan<true>(l, in[0], as); });
    }
    Linear product = composed(l, {parts(l, rows[0]), {}}, reverse(l));
    if (exclusive(l))
      for (size_t i = 0; i < product.factor.size(); ++i)
        product.factor[i] = shifted(l, product.factor[i], 1, reverse(l), l.scalar(i == 0 ? 1 : 0, DType::float32));
    return whole(l, product.factor);
  });
}

// Compute y_0 = 0, y_(i+1) = b_i + a_i y_i for inputs a and b: the recurrence over all elements before the current one.
GraphTensors lower_cumulative_recurrence(Lowering& l) {
  return over_rows(l, {l.input(0), l.input(1)}, [&](const GraphTensors& rows) {
    Linear all = composed(l, {parts(l, rows[0]), parts(l, rows[1])}, reverse(l));
    for (T __strong& term : all.term) term = shifted(l, term, 1, reverse(l), l.scalar(0, DType::float32));
    return whole(l, all.term);
  });
}

// --- extrema ---------------------------------------------------------------------------------------------------------

T running_extremum(const Lowering& l, T rows, bool maximum) {
  return maximum ? [l.graph() cumulativeMaximumWithTensor:rows axis:1 exclusive:NO reverse:reverse(l) name:l.name()]
                 : [l.graph() cumulativeMinimumWithTensor:rows axis:1 exclusive:NO reverse:reverse(l) name:l.name()];
}

template <bool maximum>
GraphTensors lower_cumulative_extremum(Lowering& l) {
  return over_rows(l, {l.input()}, [&](const GraphTensors& rows) {
    T keys = running_extremum(l, order_key(l, rows[0], l.dtype(), maximum), maximum);
    if (exclusive(l))
      keys = shifted(l, keys, 1, reverse(l), l.ints({last_key(l.dtype(), !maximum)}, order_key_type(l.dtype())));
    return number_of_key(l, keys, l.dtype());
  });
}

// Return the index of the latest element that equals the running extremum; among equal elements, the last one seen
// wins.
GraphTensors lower_cumulative_arg_extremum(Lowering& l) {
  const Steps s(l);
  const bool maximum = l.attributes().boolean("maximum");
  return over_rows(l, {l.input()}, [&](const GraphTensors& rows) {
    T keys = order_key(l, rows[0], l.dtype(), maximum);
    const Dims dims = dims_of(rows[0].shape);
    T is_extremum = s.equal(keys, running_extremum(l, keys, maximum));
    T place = s.select(is_extremum, s.coordinate(1, dims), l.ints({reverse(l) ? dims[1] : -1}));
    T last = running_extremum(l, place, !reverse(l));
    return exclusive(l) ? shifted(l, last, 1, reverse(l), l.ints({-1})) : last;
  });
}

}  // namespace

const Lowerings cumulative_lowerings("cumulative", [] {
  define_lowering("cumulative_sum", lower_cumulative_sum);
  define_lowering("cumulative_product", lower_cumulative_product);
  define_lowering("cumulative_minimum", lower_cumulative_extremum<false>);
  define_lowering("cumulative_maximum", lower_cumulative_extremum<true>);
  define_lowering("cumulative_arg_extremum", lower_cumulative_arg_extremum);
  define_lowering("cumulative_recurrence", lower_cumulative_recurrence);
});

}  // namespace mpsgraph::metal
