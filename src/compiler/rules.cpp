// The rewrite rules of simplify, by kind of operation.
//
// A rule preserves results bit for bit, or is a standard rewrite that can change the sign of a zero (x + 0 -> x) or the
// last digit (x³ -> x·x²). No rule assumes that numbers are finite: x·0 and x - x are kept.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/passes.h"
#include "compiler/rule.h"
#include "compiler/rules.h"
#include "compiler/rules_lookups.h"
#include "core/definition.h"
#include "core/kind_table.h"
#include "core/ops/shape.h"
#include "core/ops/window.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

// The value shared by all elements of a constant; nullopt if x is not such a constant.
std::optional<double> number(const Tensor* x) {
  if (!x->operation->is("constant")) return {};
  const ConstantPtr& value = x->operation->attributes.data("value");
  if (value->elements() == 0 || (!value->is_splat() && value->elements() != 1)) return {};
  return value->imaginary() == 0 ? std::optional(value->scalar()) : std::nullopt;
}
bool is_number(const Tensor* x, double wanted) { return number(x) == wanted; }

bool all_equal(const Ints& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == wanted; });
}

// ---- arithmetic ----

Tensor* first_operand(Site& s) { return s.in[0]; }
Tensor* constant_operand(Site& s) { return s.in[0]->operation->is("constant") ? s.in[0] : nullptr; }
Tensor* equal_operands(Site& s) { return s.in[0] == s.in[1] ? s.in[0] : nullptr; }

Tensor* twice_is_once(Site& s) { return s.in[0]->operation->is(s.source.kind()) ? s.in[0] : nullptr; }
Tensor* twice_is_nothing(Site& s) { return operand_of(s.in[0], s.source.kind()); }

Tensor* add_zero(Site& s) {
  for (int i : {0, 1}) {
    if (is_number(s.in[i], 0)) return s.fit(s.in[1 - i]);
  }
  return nullptr;
}
Tensor* add_negative(Site& s) {
  for (int i : {1, 0}) {
    if (Tensor* x = operand_of(s.in[i], "negative")) return s.make("subtraction", {s.in[1 - i], x});
  }
  return nullptr;
}
Tensor* subtract_zero(Site& s) { return is_number(s.in[1], 0) ? s.fit(s.in[0]) : nullptr; }
Tensor* subtract_from_zero(Site& s) {
  return is_number(s.in[0], 0) && s.in[1]->type == s.type() ? s.make("negative", {s.in[1]}) : nullptr;
}
Tensor* subtract_negative(Site& s) {
  Tensor* x = operand_of(s.in[1], "negative");
  return x ? s.make("addition", {s.in[0], x}) : nullptr;
}

Tensor* multiply_by_one(Site& s) {
  for (int i : {0, 1}) {
    Tensor* x = s.in[1 - i];
    if (is_number(s.in[i], 1)) return s.fit(x);
    if (is_number(s.in[i], -1) && x->type == s.type() && is_signed(s.type().dtype)) return s.make("negative", {x});
  }
  return nullptr;
}
Tensor* multiply_by_itself(Site& s) { return s.in[0] == s.in[1] ? s.make("square", {s.in[0]}) : nullptr; }

Tensor* divide_by_one(Site& s) { return is_number(s.in[1], 1) ? s.fit(s.in[0]) : nullptr; }

// x / 2ⁿ = x · 2⁻ⁿ holds exactly if 2⁻ⁿ is a normal number of the dtype.
Tensor* divide_by_power_of_two(Site& s) {
  auto divisor = number(s.in[1]);
  if (!divisor || !s.real()) return nullptr;
  int exponent = 0;
  const bool power = std::abs(std::frexp(*divisor, &exponent)) == 0.5;
  const int limit = s.type().dtype == DType::float16 ? 14 : s.type().dtype == DType::float64 ? 1000 : 120;
  return power && std::abs(exponent) < limit
             ? s.make("multiplication", {s.in[0], s.b().scalar_like(s.in[1], 1 / *divisor)})
             : nullptr;
}
Tensor* divide_one(Site& s) {
  return s.real() && is_number(s.in[0], 1) && s.in[1]->type == s.type() ? s.make("reciprocal", {s.in[1]}) : nullptr;
}

Tensor* power_of_number(Site& s) {
  auto exponent = number(s.in[1]);
  Tensor* x = s.in[0];
  if (!exponent || x->type != s.type()) return nullptr;
  if (*exponent == 1) return x;
  if (*exponent == 2) return s.make("square", {x});
  if (!s.real()) return nullptr;
  if (*exponent == 0) return s.filled(1);  // x^0 is 1 even if x is NaN
  if (*exponent == 3) return s.make("multiplication", {x, s.b().unary("square", x)});
  if (*exponent == -1) return s.make("reciprocal", {x});
  return nullptr;
}

// In |−x|, |(|x|)|, |x|², and (−x)², the sign of the operand does not matter. This does not hold for unsigned dtypes,
// where −x is a different number.
Tensor* sign_does_not_matter(Site& s) {
  if (!is_signed(s.type().dtype)) return nullptr;
  for (Kind kind : Kinds{"negative", "absolute"}) {
    Tensor* x = operand_of(s.in[0], kind);
    if (x && !is_complex(x->dtype())) return s.make(s.source.kind(), {x});
  }
  return nullptr;
}

Tensor* not_of_comparison(Site& s) {
  const Operation& comparison = *s.in[0]->operation;
  if (comparison.is("equal")) return s.make("not_equal", comparison.inputs);
  if (comparison.is("not_equal")) return s.make("equal", comparison.inputs);
  return nullptr;
}

// A constant operand of logical_and or logical_or either changes nothing (true for and, false for or) or determines the
// result (false for and, true for or).
Tensor* logic_with_constant(Site& s) {
  const double neutral = s.source.is("logical_and") ? 1 : 0;
  for (int i : {0, 1}) {
    auto value = number(s.in[i]);
    if (value) return *value == neutral ? s.fit(s.in[1 - i]) : s.filled(1 - neutral);
  }
  return nullptr;
}

Tensor* select_decided(Site& s) {
  if (auto predicate = number(s.in[0])) return s.fit(s.in[*predicate != 0 ? 1 : 2]);
  return s.in[1] == s.in[2] ? s.fit(s.in[1]) : nullptr;
}

Tensor* cast_to_same(Site& s) { return s.in[0]->type == s.type() ? s.in[0] : nullptr; }

// A cast of a half-precision value to float32 or float64 loses nothing. If the result is cast again, a single cast of
// the original value replaces both casts, or no cast is needed if the second cast returns to the original dtype.
Tensor* cast_of_wider(Site& s) {
  Tensor* before = operand_of(s.in[0], "cast");
  if (!before || !is_half(before->dtype())) return nullptr;
  if (s.in[0]->dtype() != DType::float32 && s.in[0]->dtype() != DType::float64) return nullptr;
  return before->type == s.type() ? before : s.make("cast", {before}, s.attributes());
}

// A half-precision sum that is cast to float32 is computed in float32 instead, without rounding in between.
Tensor* cast_of_sum(Site& s) {
  Tensor* before = operand_of(s.in[0], "reduction_sum");
  if (!before || !is_half(before->dtype()) || s.type().dtype != DType::float32) return nullptr;
  return s.make("reduction_sum", {s.b().cast(before, DType::float32)}, s.in[0]->operation->attributes);
}

// Removes broadcasts of operands, because element-wise operations broadcast their operands anyway. An operand that was
// broadcast is replaced with the tensor before the broadcast, and a constant whose elements are all equal with a
// scalar. If the operands now broadcast to a smaller shape than before, the operation computes only that shape, and its
// result is broadcast.
Tensor* narrow_operands(Site& s) {
  std::vector<Tensor*> narrow = s.in;
  bool changed = false;
  for (Tensor*& x : narrow) {
    if (x->shape().rank() == 0) continue;
    if (Tensor* before = operand_of(x, "broadcast_to")) {
      x = before;
    } else if (auto value = number(x)) {
      const ConstantPtr& data = x->operation->attributes.data("value");
      x = s.b().graph().add("constant", {}, {{"value", ConstantData::splat(data->dtype(), {}, data->bytes())}});
    } else {
      continue;
    }
    changed = true;
  }
  if (!changed) return nullptr;
  Shape shape = narrow[0]->shape();
  for (const Tensor* x : narrow) shape = *broadcast(shape, x->shape());
  if (shape == s.type().shape) return s.make(s.source.kind(), std::move(narrow), s.attributes());
  return s.fit(s.b().graph().add(s.source.kind(), std::move(narrow), s.attributes()));
}

// ---- shape ----

Tensor* same_type(Site& s) { return s.in[0]->type == s.type() ? s.in[0] : nullptr; }

bool states(const Tensor* shape, const Dims& dims) {
  const Operation& op = *shape->operation;
  return op.is("constant") && shape->dtype() == DType::int64 && op.attributes.data("value")->integers() == dims;
}

// A reshape of a reshape becomes a single reshape, and a broadcast of a broadcast a single broadcast. The rule also
// replaces the operand `shape` with an int64 constant that contains no -1.
Tensor* last_shape_counts(Site& s) {
  Tensor* before = operand_of(s.in[0], s.source.kind());
  if (!before && states(s.in[1], s.dims())) return nullptr;
  return s.make(s.source.kind(), {before ? before : s.in[0], s.b().ints(s.dims())});
}

Tensor* transpose_in_place(Site& s) {
  const Ints permutation = permutation_of(s.source);
  // A transpose that moves only axes of size 1 relative to the other axes is a reshape, because the elements keep their
  // order.
  int64_t last = -1;
  bool ordered = true;
  for (int64_t axis : permutation) {
    if (s.in[0]->shape()[static_cast<int>(axis)] == 1) continue;
    ordered &= axis > last;
    last = axis;
  }
  if (!ordered) return nullptr;
  return s.in[0]->type == s.type() ? s.in[0] : s.make("reshape", {s.in[0], s.b().ints(s.dims())});
}
Tensor* transpose_of_transpose(Site& s) {
  Tensor* x = operand_of(s.in[0], "transpose");
  if (!x) return nullptr;
  const Ints first = permutation_of(*s.in[0]->operation);
  Ints both = permutation_of(s.source);
  for (int64_t& axis : both) axis = first[axis];
  return s.make("transpose", {x}, {{"permutation", both}});
}

// The attributes of a slice after axis i has been moved to index place_of(i). `counts` receives the number of elements
// that the slice selects along each axis. Returns nullopt if the slice is empty.
template <class Place>
std::optional<Attributes> moved_slice(const Attributes& slice, const Dims& dims, const Place& place_of, Dims& counts) {
  const size_t rank = dims.size();
  Ints starts(rank), ends(rank), strides(rank);
  int64_t open = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto range = ops::slice_range(slice, static_cast<int>(axis), dims[axis]);
    if (!range || range->count == 0) return std::nullopt;
    const size_t place = place_of(axis);
    const int64_t end = range->start + (range->count - 1) * range->stride + (range->stride > 0 ? 1 : -1);
    starts[place] = range->start;
    ends[place] = std::max<int64_t>(end, 0);
    strides[place] = range->stride;
    open |= int64_t{end < 0} << place;
    counts.push_back(range->count);
  }
  return Attributes{{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}};
}

// Moves a slice before a transpose, so that fewer elements are transposed.
Tensor* slice_of_transpose(Site& s) {
  Tensor* x = s.in.size() == 1 ? operand_of(s.in[0], "transpose") : nullptr;
  if (!x) return nullptr;
  const Ints permutation = permutation_of(*s.in[0]->operation);
  Dims counts;
  const auto place = [&](size_t axis) { return static_cast<size_t>(permutation[axis]); };
  const auto attributes = moved_slice(s.attributes(), s.in[0]->shape().dims(), place, counts);
  if (!attributes) return nullptr;
  Tensor* slice = s.b().graph().add("slice", {x}, *attributes);
  if (Shape(counts) == s.type().shape) return s.make("transpose", {slice}, {{"permutation", permutation}});
  // the slice also removed an axis
  return s.make("reshape", {s.b().transpose(slice, permutation), s.b().ints(s.dims())});
}

// Replaces the transpose of a slice_gradient with the slice_gradient of a transpose, which moves fewer elements.
Tensor* transpose_of_slice_gradient(Site& s) {
  Tensor* incoming = operand_of(s.in[0], "slice_gradient");
  if (!incoming) return nullptr;
  const Ints permutation = permutation_of(s.source);
  Dims counts;
  const auto place = [&](size_t axis) {
    return static_cast<size_t>(std::ranges::find(permutation, static_cast<int64_t>(axis)) - permutation.begin());
  };
  const auto attributes = moved_slice(s.in[0]->operation->attributes, s.in[0]->shape().dims(), place, counts);
  if (!attributes) return nullptr;
  Tensor* part = s.b().transpose(s.b().reshape(incoming, counts), permutation);
  return s.make("slice_gradient", {part, s.b().ints(s.dims())}, *attributes);
}

Tensor* concat_of_fewer(Site& s) {
  if (s.in.size() == 1) return s.in[0];
  if (s.attributes().boolean("interleave")) return nullptr;
  std::vector<Tensor*> parts;
  for (Tensor* x : s.in) {
    if (x->shape().elements() > 0) parts.push_back(x);
  }
  if (parts.size() == s.in.size()) return nullptr;
  if (parts.empty()) return s.filled(0);
  return parts.size() == 1 ? parts[0] : s.make("concat", parts, s.attributes());
}

Tensor* split_in_one(Site& s) { return s.source.outputs.size() == 1 ? s.in[0] : nullptr; }

// Removes a slice that selects all elements in order. The rule applies only if the result has the operand's type. It
// also applies to the gradient of such a slice.
Tensor* whole_slice(Site& s) {
  if (s.in[0]->type != s.type() || s.attributes().integer("squeeze_mask") != 0) return nullptr;
  for (int axis = 0; axis < s.type().shape.rank(); ++axis) {
    auto range = ops::slice_range(s.attributes(), axis, s.dims()[axis]);
    if (!range || range->count != s.dims()[axis] || (range->count > 1 && range->stride != 1)) return nullptr;
  }
  return s.in[0];
}
// A dynamic slice or update whose starts are known becomes an ordinary slice or update.
Tensor* slice_from_known_starts(Site& s) {
  const bool updates = s.in.size() == 3;
  const ConstantPtr* known = constant_of(s.in.back());
  if (!known) return nullptr;
  const Dims &source = s.in[0]->shape().dims(), &sizes = updates ? s.in[1]->shape().dims() : s.dims();
  const Ints given = (*known)->integers();
  Ints strides = ops::window_strides(s.attributes(), source.size()), starts, ends;
  int64_t open = 0;
  for (size_t axis = 0; axis < source.size(); ++axis) {
    const std::optional<int64_t> start = ops::window_start(given[axis], sizes[axis], strides[axis], source[axis]);
    if (!start) return nullptr;  // the start is out of range, which the kernel reports
    const int64_t end = *start + sizes[axis] * strides[axis];
    starts.push_back(*start);
    ends.push_back(std::max<int64_t>(end, 0));
    open |= int64_t{end < 0} << axis;  // An end mask is needed for a backward slice that ends with the first element.
  }
  s.in.pop_back();
  return s.make(updates ? Kind("slice_update_data") : "slice", s.in,
                {{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}});
}

Tensor* nothing_padded(Site& s) {
  return all_equal(s.attributes().integers("left"), 0) && all_equal(s.attributes().integers("right"), 0) ? same_type(s)
                                                                                                         : nullptr;
}
Tensor* tiled_once(Site& s) { return all_equal(s.attributes().integers("multiplier"), 1) ? same_type(s) : nullptr; }

// ---- reductions and products ----

// Removes axes of size 1 from the axes of a reduction, because reducing them changes nothing, and lists the other axes
// in ascending order, counted from the front.
Tensor* needed_axes(Site& s) {
  if (s.in[0]->type == s.type()) return s.in[0];
  const Ints& stated = s.attributes().integers("axes");
  const int rank = s.type().shape.rank();
  Ints axes;
  for (int axis = 0; axis < rank; ++axis) {
    const bool reduced = stated.empty() || std::any_of(stated.begin(), stated.end(),
                                                       [&](int64_t a) { return ops::wrap_axis(a, rank) == axis; });
    if (reduced && s.in[0]->shape()[axis] != 1) axes.push_back(axis);
  }
  return axes == stated ? nullptr : s.make(s.source.kind(), {s.in[0]}, {{"axes", axes}});
}

// A batch of matrices times a single matrix becomes one matmul over all rows. MPSGraph's compiler mishandles the
// reshapes around it if the result has more than four dimensions and several of them are 1 (pytorch/pytorch#187201).
Tensor* flatten_rows(Site& s) {
  const Shape &a = s.in[0]->shape(), &b = s.in[1]->shape();
  if (a.rank() <= 2 || b.rank() != 2) return nullptr;
  if (a.rank() > 4 && std::count(a.dims().begin(), a.dims().end() - 1, 1) > 1) return nullptr;
  const int64_t k = a[a.rank() - 1];
  const Dims& leading = a.dims();
  const int64_t rows = std::accumulate(leading.begin(), leading.end() - 1, int64_t{1}, std::multiplies<>());
  Tensor* product = s.b().matmul(s.b().reshape(s.in[0], {rows, k}), s.in[1]);
  return s.make("reshape", {product, s.b().ints(s.dims())});
}

// Whether the windows of a convolution divide each image row into adjacent pieces without gaps, so that each window is
// a contiguous row of a matrix.
bool cuts_rows(const Attributes& a, const Dims& source, const Dims& weights) {
  if (a.string("data_layout") != "NHWC" || a.string("weights_layout") != "HWIO" || a.integer("groups") != 1)
    return false;
  const ops::Windows windows(a);
  const auto down = windows.window(0, source[1], weights[0]), along = windows.window(1, source[2], weights[1]);
  return down && along && weights[2] > 0 && weights[3] > 0 && weights[0] == 1 && down->begin == 0 &&
         down->output == source[1] && weights[1] > 1 && along->begin == 0 && along->dilation == 1 &&
         along->stride == weights[1] && along->output * weights[1] == source[2];
}
Tensor* as_rows(Site& s, Tensor* image, int64_t columns) {
  return s.b().reshape(image, {image->shape().elements() / columns, columns});
}
int64_t taps_of(const Dims& weights) { return weights[1] * weights[2]; }

Tensor* convolution_of_cut_rows(Site& s) {
  const Dims &source = s.in[0]->shape().dims(), &weights = s.in[1]->shape().dims();
  if (!cuts_rows(s.attributes(), source, weights)) return nullptr;
  const int64_t taps = taps_of(weights);
  Tensor* matrix = as_rows(s, s.in[1], weights[3]);
  Tensor* product = s.b().matmul(as_rows(s, s.in[0], taps), matrix);
  return s.make("reshape", {product, s.b().ints(s.dims())});
}
Tensor* data_gradient_of_cut_rows(Site& s) {
  const Dims& weights = s.in[1]->shape().dims();
  if (!cuts_rows(s.attributes(), s.dims(), weights)) return nullptr;
  Tensor* incoming = as_rows(s, s.in[0], weights[3]);
  Tensor* product = s.b().matmul(incoming, s.b().transpose(as_rows(s, s.in[1], weights[3]), {1, 0}));
  return s.make("reshape", {product, s.b().ints(s.dims())});
}
Tensor* weights_gradient_of_cut_rows(Site& s) {
  if (!cuts_rows(s.attributes(), s.in[1]->shape().dims(), s.dims())) return nullptr;
  Tensor* rows = s.b().transpose(as_rows(s, s.in[1], taps_of(s.dims())), {1, 0});
  Tensor* product = s.b().matmul(rows, as_rows(s, s.in[0], s.dims()[3]));
  return s.make("reshape", {product, s.b().ints(s.dims())});
}

const KindTable<std::vector<Rule>> rules = {
    {"identity", {first_operand}},
    {"optimization_barrier", {constant_operand}},
    {"addition", {add_zero, add_negative, bias_of_lookup}},
    {"subtraction", {subtract_zero, subtract_from_zero, subtract_negative}},
    {"multiplication", {multiply_by_one, multiply_by_itself}},
    {"division", {divide_by_one, divide_by_power_of_two, divide_one}},
    {"division_no_nan", {divide_by_one}},
    {"power", {power_of_number}},
    {"negative", {twice_is_nothing}},
    {"absolute", {sign_does_not_matter}},
    {"square", {sign_does_not_matter}},
    {"relu", {twice_is_once}},
    {"ceil", {twice_is_once}},
    {"floor", {twice_is_once}},
    {"truncate", {twice_is_once}},
    {"not", {twice_is_nothing, not_of_comparison}},
    {"bitwise_not", {twice_is_nothing}},
    {"logical_and", {equal_operands, logic_with_constant}},
    {"logical_or", {equal_operands, logic_with_constant}},
    {"minimum", {equal_operands}},
    {"maximum", {equal_operands}},
    {"minimum_with_nan_propagation", {equal_operands}},
    {"maximum_with_nan_propagation", {equal_operands}},
    {"select", {select_decided}},
    {"cast", {cast_to_same, cast_of_wider, cast_of_sum}},
    {"reshape", {same_type, last_shape_counts, moved_lookup}},
    {"broadcast_to", {same_type, last_shape_counts}},
    {"transpose", {transpose_in_place, transpose_of_transpose, transpose_of_slice_gradient, moved_lookup}},
    {"concat", {concat_of_fewer}},
    {"split", {split_in_one}},
    {"dynamic_slice", {slice_from_known_starts}},
    {"dynamic_slice_update_data", {slice_from_known_starts}},
    {"slice", {whole_slice, slice_of_transpose}},
    {"slice_gradient", {whole_slice}},
    {"convolution2d", {convolution_of_cut_rows}},
    {"convolution2d_data_gradient", {data_gradient_of_cut_rows}},
    {"convolution2d_weights_gradient", {weights_gradient_of_cut_rows}},
    {"pad", {nothing_padded}},
    {"pad_gradient", {nothing_padded}},
    {"tile", {tiled_once}},
    {"tile_gradient", {tiled_once}},
    {"reduction_sum", {needed_axes}},
    {"reduction_product", {needed_axes}},
    {"reduction_maximum", {needed_axes}},
    {"reduction_minimum", {needed_axes}},
    {"reduction_maximum_propagate_nan", {needed_axes}},
    {"reduction_minimum_propagate_nan", {needed_axes}},
    {"reduction_and", {needed_axes}},
    {"reduction_or", {needed_axes}},
    {"gather_gradient", {moved_gradient, gradient_of_product}},
    {"matrix_multiplication", {product_of_lookup, flatten_rows, weights_gradient_of_lookup}},
};

}  // namespace

static Tensor* applied(const std::vector<Rule>* of_kind, Site site) {
  if (of_kind) {
    for (Rule rule : *of_kind) {
      if (Tensor* result = rule(site)) return result;
    }
  }
  return site.source.definition->elementwise ? narrow_operands(site) : nullptr;
}

// Whether a rule applies to the operation. No rule applies to most operations; this function detects that before
// anything is copied.
static bool applies(const std::vector<Rule>* of_kind, const Site& site) {
  try {
    return applied(of_kind, site) != nullptr;
  } catch (const Applies&) {
    return true;
  }
}

Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source) {
  const std::vector<Rule>* of_kind = rules.find(source.kind());
  if (!of_kind && !source.definition->elementwise) return {};
  if (rewriter.is_untouched()) {
    if (!applies(of_kind, Site(rewriter, source))) return {};
    rewriter.graph();
  }
  Tensor* result = applied(of_kind, Site(rewriter, source));
  return result ? Rewriter::Replacement(std::vector<Tensor*>{result}) : std::nullopt;
}

Rewriter::Replacement taken_branch(Rewriter& r, const Operation& source) {
  if (!source.is("if") || source.outputs.empty()) return std::nullopt;
  const Operation& predicate = *r.now(source.input(0))->operation;
  if (!predicate.is("constant")) return std::nullopt;
  const Block& taken = *source.blocks[predicate.attributes.data("value")->scalar() != 0 ? 0 : 1];
  r.copy_operations(taken);
  return r.now(taken.results);
}

}  // namespace mpsgraph::compiler
