// Casts of values, and reinterpretation of their bytes.
//
// Apple does not document conversions of out-of-range numbers and NaN to integers, or conversions from and to bool.
// Such casts are composed of documented operations.
#include <cmath>

#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

// Convert floats to integers: out-of-range numbers saturate, and NaN gives 0. The bounds are powers of two, which
// float32 represents exactly.
Term whole_of(const Term& x, DType from, DType to) {
  const Term wide = truncate(from == DType::float32 ? x : x.cast(DType::float32));
  const double end = std::ldexp(1.0, 8 * static_cast<int>(size_of(to)) - is_signed(to));
  const double first = is_signed(to) ? -end : 0;
  const Term above = wide >= end, below = wide < first;
  const Term inside = select(either(is_nan(wide), either(above, below)), 0, wide).cast(to);
  const Term least = inside.constant(first);
  const Term most = least.with([x.graph() bitwiseNOTWithTensor:least.tensor() name:nil]);
  return select(above, most, select(below, least, inside));
}

Term cast_real(const Term& x, DType from, DType to) {
  if (to == DType::boolean) return x != 0;
  return is_float(from) && is_integer(to) ? whole_of(x, from, to) : x.cast(to);
}

GraphTensors lower_cast(Lowering& l) {
  const DType from = l.dtype(), to = l.result_type().dtype;
  if (from == to) return {l.input()};
  const Term x = Term::input(l);
  if (is_complex(from)) {
    const Parts parts = parts_of(l, l.input());
    if (to == DType::boolean) return either(parts.re != 0, parts.im != 0);
    return to == DType::float32 ? parts.re : cast_real(parts.re, DType::float32, to);
  }
  if (is_complex(to)) return {complex_tensor(l, parts_of(l, l.input()))};
  return cast_real(x, from, to);
}

GraphTensors lower_reinterpret_cast(Lowering& l) {
  return {[l.graph() reinterpretCastTensor:l.input() toType:data_type(l.result_type().dtype) name:l.name()]};
}

}  // namespace

const Lowerings cast_lowerings("cast", [] {
  define_lowering("cast", lower_cast);
  define_lowering("reinterpret_cast", lower_reinterpret_cast);
});

}  // namespace mpsgraph::metal
