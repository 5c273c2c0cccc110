// Reductions along axes, which remain with size 1.
//
// Apple does not document how plain extrema treat NaN, which of several equal elements arg reductions choose, whether
// small integers and complex numbers can be summed, or the precision of float16 and bfloat16 sums. Such reductions are
// composed. MPSGraph only receives the dtypes that PyTorch's backend passes: int32, int64, float16, and float32. For
// other dtypes, MPSGraph may lack a kernel and abort the process (pytorch/pytorch#114532).
#include <cmath>
#include <numeric>

#include "backends/metal/complex.h"
#include "backends/metal/order.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

using Method = MPSGraphTensor* (*)(MPSGraph*, MPSGraphTensor*, NSArray<NSNumber*>*);

#define REDUCTION(function, method)                                                             \
  MPSGraphTensor* function(MPSGraph* graph, MPSGraphTensor* tensor, NSArray<NSNumber*>* axes) { \
    return [graph method##WithTensor:tensor axes:axes name:nil];                                \
  }
REDUCTION(sum_of, reductionSum)
REDUCTION(product_of, reductionProduct)
REDUCTION(maximum_of, reductionMaximum)
REDUCTION(minimum_of, reductionMinimum)
REDUCTION(maximum_or_nan_of, reductionMaximumPropagateNaN)
REDUCTION(minimum_or_nan_of, reductionMinimumPropagateNaN)
#undef REDUCTION

// In MPSGraph, a tensor of rank 0 has one axis.
Ints axes_of(const Lowering& l) { return l.rank() ? l.axes() : Ints{0}; }

Term reduce(const Term& x, Method method, const Ints& axes) {
  if (method == sum_of && is_long_sum(x, axes)) return sum(x, axes);
  return x.with(method(x.graph(), x.tensor(), numbers(axes)));
}

// --- sums and products -----------------------------------------------------------------------------------------------

Term slice(const Term& x, size_t axis, int64_t start, int64_t end) {
  Dims dims = dims_of(x.tensor().shape);
  Ints starts(dims.size(), 0), strides(dims.size(), 1);
  starts[axis] = start;
  dims[axis] = end;
  return x.with([x.graph() sliceTensor:x.tensor()
                                starts:numbers(starts)
                                  ends:numbers(dims)
                               strides:numbers(strides)
                                  name:nil]);
}

Parts product(const Parts& a, const Parts& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// Multiply the first half of the elements by the second half until one element is left.
Parts complex_product(Parts z, const Ints& axes) {
  for (const int64_t axis : axes) {
    const auto a = static_cast<size_t>(axis);
    for (int64_t n = dims_of(z.re.tensor().shape)[a]; n > 1; n = (n + 1) / 2) {
      const auto part = [&](int64_t start, int64_t end) {
        return Parts{slice(z.re, a, start, end), slice(z.im, a, start, end)};
      };
      const Parts halves = product(part(0, n / 2), part(n - n / 2, n));
      if (n % 2 == 0) {
        z = halves;
        continue;
      }
      const Parts middle = part(n / 2, n / 2 + 1);
      const auto joined = [&](const Term& x, const Term& y) {
        return x.with([x.graph() concatTensors:@[ x.tensor(), y.tensor() ] dimension:axis name:nil]);
      };
      z = {joined(halves.re, middle.re), joined(halves.im, middle.im)};
    }
  }
  return z;
}

// Reduce integers of 8 and 16 bits in 32 bits, which gives the same low bits. Reduce unsigned integers as signed
// integers, and float16 and bfloat16 in float32.
GraphTensors reduce_numbers(Lowering& l, Method method) {
  if (is_float(l.dtype())) return narrow(l, reduce(wide_input(l), method, axes_of(l)));
  const Term x = Term::input(l);
  if (size_of(l.dtype()) < 4) return reduce(x.cast(DType::int32), method, axes_of(l)).cast(l.dtype());
  if (is_signed(l.dtype())) return reduce(x, method, axes_of(l));
  const Steps s(l);
  const DType as = order_key_type(l.dtype());
  return x.with(s.reinterpret(reduce(x.with(s.reinterpret(x.tensor(), as)), method, axes_of(l)).tensor(), l.dtype()));
}

GraphTensors lower_sum(Lowering& l) {
  if (!is_complex(l.dtype())) return reduce_numbers(l, sum_of);
  const Parts z = parts_of(l, l.input());
  return {complex_tensor(l, {reduce(z.re, sum_of, axes_of(l)), reduce(z.im, sum_of, axes_of(l))})};
}

GraphTensors lower_product(Lowering& l) {
  if (!is_complex(l.dtype())) return reduce_numbers(l, product_of);
  return {complex_tensor(l, complex_product(parts_of(l, l.input()), axes_of(l)))};
}

// --- extrema ---------------------------------------------------------------------------------------------------------

// Return whether all elements (all_of), or any (any_of), are true along the axes. bool is converted to int32 for the
// reduction.
Term all_of(const Term& x, const Ints& axes) { return reduce(x.cast(DType::int32), minimum_of, axes) == 1; }
Term any_of(const Term& x, const Ints& axes) { return reduce(x.cast(DType::int32), maximum_of, axes) == 1; }

// Convert integers to keys with the same order, of a type that MPSGraph compares correctly.
Term keys_of(const Lowering& l, const Term& x) { return x.with(order_key(l, x.tensor(), l.dtype())); }

Term extremum_of_integers(const Lowering& l, Method method) {
  const Term x = Term::input(l);
  return x.with(number_of_key(l, reduce(keys_of(l, x), method, axes_of(l)).tensor(), l.dtype()));
}

// Convert bfloat16 to float32, which represents the same numbers exactly.
Term floats(const Lowering& l) { return wide_input(l); }

// Return the extremum, ignoring NaN unless all elements are NaN.
GraphTensors extremum(Lowering& l, Method method, double worst) {
  if (!is_float(l.dtype())) return extremum_of_integers(l, method);
  const Term x = floats(l);
  const Ints axes = axes_of(l);
  const Term none = is_nan(x), chosen = reduce(select(none, worst, x), method, axes);
  return narrow(l, select(all_of(none, axes), NAN, chosen));
}

GraphTensors extremum_or_nan(Lowering& l, Method of_floats, Method of_integers) {
  if (!is_float(l.dtype())) return extremum_of_integers(l, of_integers);
  return narrow(l, reduce(floats(l), of_floats, axes_of(l)));
}

// Return the index of the first of several equal extrema, or of the first NaN if there is one.
GraphTensors arg_extremum(Lowering& l, Method of_floats, Method of_integers) {
  const bool half = is_half(l.dtype());
  const Term given = Term::input(l);
  const Term x = is_float(l.dtype()) ? (half ? given.cast(DType::float32) : given) : keys_of(l, given);
  const int64_t axis = l.axis(), size = l.dims()[static_cast<size_t>(axis)];
  const Term best = reduce(x, is_float(l.dtype()) ? of_floats : of_integers, {axis});
  const Term chosen = is_float(l.dtype()) ? either(x == best, is_nan(x)) : x == best;
  Ints positions(static_cast<size_t>(size));
  std::iota(positions.begin(), positions.end(), 0);
  Dims dims(l.dims().size(), 1);
  dims[static_cast<size_t>(axis)] = size;
  const Term position = Term(l, l.ints(positions)).reshape(dims);
  return reduce(select(chosen, position, static_cast<double>(size)), minimum_of, {axis});
}

}  // namespace

const Lowerings reduction_lowerings("reduction", [] {
  define_lowering("reduction_sum", lower_sum);
  define_lowering("reduction_product", lower_product);
  define_lowering("reduction_maximum", [](Lowering& l) { return extremum(l, maximum_of, -INFINITY); });
  define_lowering("reduction_minimum", [](Lowering& l) { return extremum(l, minimum_of, INFINITY); });
  define_lowering("reduction_maximum_propagate_nan",
                  [](Lowering& l) { return extremum_or_nan(l, maximum_or_nan_of, maximum_of); });
  define_lowering("reduction_minimum_propagate_nan",
                  [](Lowering& l) { return extremum_or_nan(l, minimum_or_nan_of, minimum_of); });
  define_lowering("reduction_arg_maximum", [](Lowering& l) { return arg_extremum(l, maximum_or_nan_of, maximum_of); });
  define_lowering("reduction_arg_minimum", [](Lowering& l) { return arg_extremum(l, minimum_or_nan_of, minimum_of); });
  define_lowering("reduction_and", [](Lowering& l) -> GraphTensors { return all_of(Term::input(l), axes_of(l)); });
  define_lowering("reduction_or", [](Lowering& l) -> GraphTensors { return any_of(Term::input(l), axes_of(l)); });
});

}  // namespace mpsgraph::metal
