// The rewrite rules of simplify, by kind of operation.
//
// A rule preserves results bit for bit, or is a standard rewrite that can change the sign of a zero (x + 0 -> x) or the
// last digit (x³ -> x·x²). No rule assumes that numbers are finite: x·0 and x - x are kept.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/passes.h"
#include "compiler/recipes.h"
#include "compiler/rule.h"
#include "core/kind_table.h"
#include "core/ops/window.h"
#include "core/wide.h"

namespace mpsgraph::compiler {
namespace {

using enum Capture;

// ---- conditions and replacements that several rules share ----

bool has_type_of_x(const Site& s) { return s[x]->type == s.type(); }
bool real_with_type_of_x(const Site& s) { return s.real() && has_type_of_x(s); }
template <auto find>
bool has(const Site& s) {
  return find(s).has_value();
}
Tensor* keep_x(Site& s) { return s[x]; }
Tensor* fit_x(Site& s) { return s.fit(s[x]); }
Tensor* negated_x(Site& s) { return s.make("negative", {s[x]}); }
Tensor* square_of_x(Site& s) { return s.make("square", {s[x]}); }
Tensor* reciprocal_of_x(Site& s) { return s.make("reciprocal", {s[x]}); }

bool all_equal(const Ints& values, int64_t wanted) {
  return std::ranges::all_of(values, [=](int64_t v) { return v == wanted; });
}

// ---- arithmetic ----

bool signed_with_type_of_x(const Site& s) { return is_signed(s.type().dtype) && has_type_of_x(s); }

// x / 2ⁿ = x · 2⁻ⁿ holds exactly if 2⁻ⁿ is a normal number of the dtype.
bool divides_by_power_of_two(const Site& s) {
  const auto divisor = number_of(s[y]);
  if (!divisor || !s.real()) return false;
  int exponent = 0;
  const bool power = std::abs(std::frexp(*divisor, &exponent)) == 0.5;
  const int limit = s.type().dtype == DType::float16 ? 14 : s.type().dtype == DType::float64 ? 1000 : 120;
  return power && std::abs(exponent) < limit;
}
Tensor* times_reciprocal(Site& s) {
  Tensor* reciprocal = s.b().scalar_like(s[y], 1 / *number_of(s[y]));
  Recipes::note(*constant_of(reciprocal), {.definition = &definition_of(Kind("reciprocal")),
                                           .attributes = {},
                                           .operands = {*constant_of(s[y])},
                                           .types = {reciprocal->type},
                                           .power_of_two = true});
  return s.make("multiplication", {s[x], reciprocal});
}

Tensor* cube_of_x(Site& s) { return s.make("multiplication", {s[x], s.b().unary("square", s[x])}); }

// In |−x|, |(|x|)|, |x|², and (−x)², the sign of the operand does not matter. This does not hold for unsigned dtypes,
// where −x is a different number.
bool sign_does_not_matter(const Site& s) { return is_signed(s.type().dtype) && !is_complex(s[x]->dtype()); }
Tensor* same_of_x(Site& s) { return s.make(s.source.kind(), {s[x]}); }

bool is_decided(const Site& s) { return number_of(s[x]).has_value(); }

// A cast of a half-precision value to float32 or float64 loses nothing. If the result is cast again, a single cast of
// the original value replaces both casts, or no cast is needed if the second cast returns to the original dtype.
bool casts_wider(const Site& s) {
  return is_half(s[x]->dtype()) && (s[y]->dtype() == DType::float32 || s[y]->dtype() == DType::float64);
}
Tensor* cast_once(Site& s) { return has_type_of_x(s) ? s[x] : s.make("cast", {s[x]}, s.attributes()); }

// A half-precision sum that is cast to float32 is computed in float32 instead, without rounding in between.
bool casts_half_sum(const Site& s) { return is_half(s[x]->dtype()) && s.type().dtype == DType::float32; }
Tensor* sum_in_float32(Site& s) {
  return s.make("reduction_sum", {s.b().cast(s[x], DType::float32)}, s[y]->operation->attributes);
}

// Removes broadcasts of operands, because element-wise operations broadcast their operands anyway. An operand that was
// broadcast is replaced with the tensor before the broadcast, and a constant whose elements are all equal with a
// scalar. If the operands now broadcast to a smaller shape than before, the operation computes only that shape, and its
// result is broadcast.
bool is_broadcast(const Tensor* operand) {
  return operand->shape().rank() > 0 && (operand->operation->is("broadcast_to") || number_of(operand));
}
bool has_broadcast_operands(const Site& s) { return std::ranges::any_of(s.in, is_broadcast); }
Tensor* narrow_operands(Site& s) {
  std::vector<Tensor*> narrow = s.in;
  for (Tensor*& operand : narrow) {
    if (!is_broadcast(operand)) continue;
    if (const ConstantPtr* data = constant_of(operand)) {
      const ConstantPtr scalar = ConstantData::splat((*data)->dtype(), {}, (*data)->bytes());
      Recipes::note_element(scalar, *data);
      operand = s.b().graph().add("constant", {}, {{"value", scalar}});
    } else {
      operand = operand->operation->input(0);
    }
  }
  Shape shape = narrow[0]->shape();
  for (const Tensor* operand : narrow) shape = *broadcast(shape, operand->shape());
  if (shape == s.type().shape) return s.make(s.source.kind(), std::move(narrow), s.attributes());
  return s.fit(s.b().graph().add(s.source.kind(), std::move(narrow), s.attributes()));
}

// ---- shape ----

// The operand `shape` of a reshape or broadcast is replaced with an int64 constant that contains no -1.
bool does_not_state_shape(const Site& s) {
  const ConstantPtr* shape = constant_of(s[y]);
  return !shape || s[y]->dtype() != DType::int64 || (*shape)->integers() != s.dims();
}
Tensor* with_stated_shape(Site& s) { return s.make(s.source.kind(), {s[x], s.b().ints(s.dims())}); }

// A transpose that moves only axes of size 1 relative to the other axes is a reshape, because the elements keep their
// order.
bool keeps_order(const Site& s) {
  int64_t last = -1;
  for (int64_t axis : permutation_of(s.source)) {
    if (s[x]->shape()[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}
Tensor* reshaped_x(Site& s) { return has_type_of_x(s) ? s[x] : s.make("reshape", {s[x], s.b().ints(s.dims())}); }

Tensor* transposed_once(Site& s) {
  const Ints first = permutation_of(s[y]);
  Ints both = permutation_of(s.source);
  for (int64_t& axis : both) axis = first[axis];
  return s.make("transpose", {s[x]}, {{"permutation", both}});
}

// A slice whose axes have been permuted: axis i has been moved to index places[i]. `counts` is the number of elements
// that the slice selects along each of the original axes. There is none if the slice is empty.
struct MovedSlice {
  Attributes attributes;
  Dims counts;

  static std::optional<MovedSlice> of(const Attributes& slice, const Dims& dims, const Ints& places) {
    const size_t rank = dims.size();
    Ints starts(rank), ends(rank), strides(rank);
    Dims counts;
    int64_t open = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const auto range = ops::slice_range(slice, static_cast<int>(axis), dims[axis]);
      if (!range || range->count == 0) return std::nullopt;
      const int64_t place = places[axis];
      const int64_t end = range->start + (range->count - 1) * range->stride + (range->stride > 0 ? 1 : -1);
      starts[place] = range->start;
      ends[place] = std::max<int64_t>(end, 0);
      strides[place] = range->stride;
      open |= int64_t{end < 0} << place;
      counts.push_back(range->count);
    }
    return MovedSlice{{{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}}, counts};
  }
};

// Moves a slice before a transpose, so that fewer elements are transposed.
std::optional<MovedSlice> slice_before_transpose(const Site& s) {
  return MovedSlice::of(s.attributes(), s[y]->shape().dims(), permutation_of(s[y]));
}
Tensor* sliced_and_transposed(Site& s) {
  const MovedSlice moved = *slice_before_transpose(s);
  const Ints permutation = permutation_of(s[y]);
  Tensor* slice = s.b().graph().add("slice", {s[x]}, moved.attributes);
  if (Shape(moved.counts) == s.type().shape) return s.make("transpose", {slice}, {{"permutation", permutation}});
  // the slice also removed an axis
  return s.make("reshape", {s.b().transpose(slice, permutation), s.b().ints(s.dims())});
}

// Replaces the transpose of a slice_gradient with the slice_gradient of a transpose, which moves fewer elements.
std::optional<MovedSlice> slice_gradient_after_transpose(const Site& s) {
  const Ints permutation = permutation_of(s.source);
  Ints places(permutation.size());
  for (size_t i = 0; i < places.size(); ++i) places[permutation[i]] = static_cast<int64_t>(i);
  return MovedSlice::of(s[y]->operation->attributes, s[y]->shape().dims(), places);
}
Tensor* transposed_and_placed(Site& s) {
  const MovedSlice moved = *slice_gradient_after_transpose(s);
  Tensor* part = s.b().transpose(s.b().reshape(s[y]->operation->input(0), moved.counts), permutation_of(s.source));
  return s.make("slice_gradient", {part, s.b().ints(s.dims())}, moved.attributes);
}

bool is_empty(const Tensor* tensor) { return tensor->shape().elements() == 0; }
bool joins_empty_parts(const Site& s) {
  return !s.attributes().boolean("interleave") && std::ranges::any_of(s.in, is_empty);
}
Tensor* concat_of_fewer(Site& s) {
  std::vector<Tensor*> parts;
  std::ranges::remove_copy_if(s.in, std::back_inserter(parts), is_empty);
  if (parts.empty()) return s.filled(0);
  return parts.size() == 1 ? parts[0] : s.make("concat", parts, s.attributes());
}

Tensor* first_operand(Site& s) { return s.in[0]; }
bool has_type_of_first(const Site& s) { return s.in[0]->type == s.type(); }

// A slice that selects all elements in order is removed, and so is the gradient of such a slice.
bool slices_all(const Site& s) {
  if (!has_type_of_first(s) || s.attributes().integer("squeeze_mask") != 0) return false;
  for (int axis = 0; axis < s.type().shape.rank(); ++axis) {
    const auto range = ops::slice_range(s.attributes(), axis, s.dims()[axis]);
    if (!range || range->count != s.dims()[axis] || (range->count > 1 && range->stride != 1)) return false;
  }
  return true;
}

// A dynamic slice or update whose starts are known becomes an ordinary slice or update.
std::optional<Attributes> known_slice(const Site& s) {
  const ConstantPtr* known = constant_of(s.in.back());
  if (!known) return std::nullopt;
  const Dims &source = s.in[0]->shape().dims(), &sizes = s.in.size() == 3 ? s.in[1]->shape().dims() : s.dims();
  const Ints given = (*known)->integers();
  Ints strides = ops::window_strides(s.attributes(), source.size()), starts, ends;
  int64_t open = 0;
  for (size_t axis = 0; axis < source.size(); ++axis) {
    const std::optional<int64_t> start = ops::window_start(given[axis], sizes[axis], strides[axis], source[axis]);
    if (!start) return std::nullopt;  // the start is out of range, which the kernel reports
    const int64_t end = *start + sizes[axis] * strides[axis];
    starts.push_back(*start);
    ends.push_back(std::max<int64_t>(end, 0));
    open |= int64_t{end < 0} << axis;  // An end mask is needed for a backward slice that ends with the first element.
  }
  return Attributes{{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}};
}
Tensor* slice_from_known_starts(Site& s) {
  const Attributes attributes = *known_slice(s);
  s.in.pop_back();
  return s.make(s.source.is("dynamic_slice") ? Kind("slice") : "slice_update_data", s.in, attributes);
}

bool pads_nothing(const Site& s) {
  const Attributes& a = s.attributes();
  return all_equal(a.integers("left"), 0) && all_equal(a.integers("right"), 0) && has_type_of_first(s);
}
bool tiles_once(const Site& s) { return all_equal(s.attributes().integers("multiplier"), 1) && has_type_of_first(s); }

// ---- reductions and products ----

// The axes of a reduction without axes of size 1, because reducing them changes nothing, in ascending order and counted
// from the front.
Ints needed_axes(const Site& s) {
  const Ints& stated = s.attributes().integers("axes");
  const int rank = s.type().shape.rank();
  Ints axes;
  for (int axis = 0; axis < rank; ++axis) {
    const bool reduced =
        stated.empty() || std::ranges::any_of(stated, [&](int64_t a) { return ops::wrap_axis(a, rank) == axis; });
    if (reduced && s[x]->shape()[axis] != 1) axes.push_back(axis);
  }
  return axes;
}
bool states_other_axes(const Site& s) { return has_type_of_x(s) || needed_axes(s) != s.attributes().integers("axes"); }
Tensor* over_needed_axes(Site& s) {
  return has_type_of_x(s) ? s[x] : s.make(s.source.kind(), {s[x]}, {{"axes", needed_axes(s)}});
}

// A batch of matrices times a single matrix becomes one matmul over all rows. MPSGraph's compiler mishandles the
// reshapes around it if the result has more than four dimensions and several of them are 1 (pytorch/pytorch#187201).
bool has_rows_to_flatten(const Site& s) {
  const Shape &a = s[x]->shape(), &b = s[y]->shape();
  return a.rank() > 2 && b.rank() == 2 && (a.rank() <= 4 || std::count(a.dims().begin(), a.dims().end() - 1, 1) <= 1);
}
Tensor* flatten_rows(Site& s) {
  const Dims& leading = s[x]->shape().dims();
  const int64_t rows = std::accumulate(leading.begin(), leading.end() - 1, int64_t{1}, std::multiplies<>());
  Tensor* product = s.b().matmul(s.b().reshape(s[x], {rows, leading.back()}), s[y]);
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
const Dims& sizes_of(const Tensor* tensor) { return tensor->shape().dims(); }
Tensor* as_rows(Site& s, Tensor* image, int64_t columns) {
  return s.b().reshape(image, {image->shape().elements() / columns, columns});
}
int64_t taps_of(const Dims& weights) { return weights[1] * weights[2]; }

bool convolves_cut_rows(const Site& s) { return cuts_rows(s.attributes(), sizes_of(s[x]), sizes_of(s[y])); }
Tensor* convolution_of_cut_rows(Site& s) {
  Tensor* matrix = as_rows(s, s[y], sizes_of(s[y])[3]);
  Tensor* product = s.b().matmul(as_rows(s, s[x], taps_of(sizes_of(s[y]))), matrix);
  return s.make("reshape", {product, s.b().ints(s.dims())});
}
bool gives_cut_rows(const Site& s) { return cuts_rows(s.attributes(), s.dims(), sizes_of(s[y])); }
Tensor* data_gradient_of_cut_rows(Site& s) {
  const int64_t outputs = sizes_of(s[y])[3];
  Tensor* incoming = as_rows(s, s[x], outputs);
  Tensor* product = s.b().matmul(incoming, s.b().transpose(as_rows(s, s[y], outputs), {1, 0}));
  return s.make("reshape", {product, s.b().ints(s.dims())});
}
bool sums_cut_rows(const Site& s) { return cuts_rows(s.attributes(), sizes_of(s[y]), s.dims()); }
Tensor* weights_gradient_of_cut_rows(Site& s) {
  Tensor* rows = s.b().transpose(as_rows(s, s[y], taps_of(s.dims())), {1, 0});
  Tensor* product = s.b().matmul(rows, as_rows(s, s[x], s.dims()[3]));
  return s.make("reshape", {product, s.b().ints(s.dims())});
}

// ---- the rules, in the order in which they are tried ----

std::vector<Rule> all_rules() {
  std::vector<Rule> rules = {
      {op("identity", x), keep_x},
      {op("optimization_barrier", op("constant").as(x)), keep_x},

      {op("addition", 0, x), fit_x},
      {op("addition", x, op("negative", y)), [](Site& s) { return s.make("subtraction", {s[x], s[y]}); }},
      {op("subtraction", x, 0), fit_x},
      {op("subtraction", 0, x), has_type_of_x, negated_x},
      {op("subtraction", x, op("negative", y)), [](Site& s) { return s.make("addition", {s[x], s[y]}); }},
      {op("multiplication", 1, x), fit_x},
      {op("multiplication", -1, x), signed_with_type_of_x, negated_x},
      {op("multiplication", x, x), square_of_x},
      {op({"division", "division_no_nan"}, x, 1), fit_x},
      {op("division", x, op("constant").as(y)), divides_by_power_of_two, times_reciprocal},
      {op("division", 1, x), real_with_type_of_x, reciprocal_of_x},
      {op("power", x, 1), has_type_of_x, keep_x},
      {op("power", x, 2), has_type_of_x, square_of_x},
      {op("power", x, 0), real_with_type_of_x, [](Site& s) { return s.filled(1); }},  // also if x is NaN
      {op("power", x, 3), real_with_type_of_x, cube_of_x},
      {op("power", x, -1), real_with_type_of_x, reciprocal_of_x},
      {op("negative", op("negative", x)), keep_x},
      {op({"absolute", "square"}, op({"negative", "absolute"}, x)), sign_does_not_matter, same_of_x},
      {op("relu", op("relu").as(x)), keep_x},
      {op("ceil", op("ceil").as(x)), keep_x},
      {op("floor", op("floor").as(x)), keep_x},
      {op("truncate", op("truncate").as(x)), keep_x},

      {op("not", op("not", x)), keep_x},
      {op("not", op("equal", x, y)), [](Site& s) { return s.make("not_equal", {s[x], s[y]}); }},
      {op("not", op("not_equal", x, y)), [](Site& s) { return s.make("equal", {s[x], s[y]}); }},
      {op("bitwise_not", op("bitwise_not", x)), keep_x},
      {op({"logical_and", "logical_or", "minimum", "maximum", "minimum_with_nan_propagation",
           "maximum_with_nan_propagation"},
          x, x),
       keep_x},
      {op("logical_and", 1, x), fit_x},
      {op("logical_and", 0, x), [](Site& s) { return s.filled(0); }},
      {op("logical_or", 0, x), fit_x},
      {op("logical_or", 1, x), [](Site& s) { return s.filled(1); }},
      {op("select", op("constant").as(x), y, z), is_decided,
       [](Site& s) { return s.fit(s[*number_of(s[x]) != 0 ? y : z]); }},
      {op("select", any, x, x), fit_x},

      {op("cast", x), has_type_of_x, keep_x},
      {op("cast", op("cast", x).as(y)), casts_wider, cast_once},
      {op("cast", op("reduction_sum", x).as(y)), casts_half_sum, sum_in_float32},

      {op({"reshape", "broadcast_to"}, x, any), has_type_of_x, keep_x},
      {op("reshape", op("reshape", x, any), any), with_stated_shape},
      {op("broadcast_to", op("broadcast_to", x, any), any), with_stated_shape},
      {op({"reshape", "broadcast_to"}, x, y), does_not_state_shape, with_stated_shape},
      {op("transpose", x), keeps_order, reshaped_x},
      {op("transpose", op("transpose", x).as(y)), transposed_once},
      {op("transpose", op("slice_gradient").as(y)), has<slice_gradient_after_transpose>, transposed_and_placed},
      {op("concat", x), keep_x},
      {op("concat"), joins_empty_parts, concat_of_fewer},
      {op("split", x), [](const Site& s) { return s.source.outputs.size() == 1; }, keep_x},
      {op({"dynamic_slice", "dynamic_slice_update_data"}), has<known_slice>, slice_from_known_starts},
      {op({"slice", "slice_gradient"}), slices_all, first_operand},
      {op("slice", op("transpose", x).as(y)), has<slice_before_transpose>, sliced_and_transposed},
      {op({"pad", "pad_gradient"}), pads_nothing, first_operand},
      {op({"tile", "tile_gradient"}), tiles_once, first_operand},

      {op({"reduction_sum", "reduction_product", "reduction_maximum", "reduction_minimum",
           "reduction_maximum_propagate_nan", "reduction_minimum_propagate_nan", "reduction_and", "reduction_or"},
          x),
       states_other_axes, over_needed_axes},
      {op("convolution2d", x, y), convolves_cut_rows, convolution_of_cut_rows},
      {op("convolution2d_data_gradient", x, y, any), gives_cut_rows, data_gradient_of_cut_rows},
      {op("convolution2d_weights_gradient", x, y, any), sums_cut_rows, weights_gradient_of_cut_rows},
  };
  std::ranges::move(rules_of_lookups(), std::back_inserter(rules));
  rules.push_back({op("matrix_multiplication", x, y), has_rows_to_flatten, flatten_rows});
  return rules;
}

const KindTable<std::vector<Rule>>& rules_by_kind() {
  static const KindTable<std::vector<Rule>> table = [] {
    KindTable<std::vector<Rule>> by_kind;
    for (const Rule& rule : all_rules())
      for (const Kind kind : rule.pattern.kinds()) by_kind[kind].push_back(rule);
    return by_kind;
  }();
  return table;
}

// The rule that applies to the operation; null if none does.
const Rule* rule_for(Site& site) {
  static const Rule narrowing(x, has_broadcast_operands, narrow_operands);
  if (const std::vector<Rule>* rules = rules_by_kind().find(site.source.kind())) {
    const auto found = std::ranges::find_if(*rules, [&](const Rule& rule) { return site.matches(rule); });
    if (found != rules->end()) return &*found;
  }
  return site.source.definition->elementwise && site.matches(narrowing) ? &narrowing : nullptr;
}

}  // namespace

Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source) {
  if (!rules_by_kind().contains(source.kind()) && !source.definition->elementwise) return {};
  Site site(rewriter, source);
  const Rule* rule = rule_for(site);
  if (!rule) return {};
  // Nothing has been copied as long as no rule applies. Now the operands are copied, and captured again.
  if (rewriter.is_untouched()) {
    rewriter.graph();
    Site copied(rewriter, source);
    return copied.matches(*rule) ? Rewriter::Replacement({rule->replacement(copied)}) : std::nullopt;
  }
  return std::vector<Tensor*>{rule->replacement(site)};
}

Rewriter::Replacement taken_branch(Rewriter& r, const Operation& source) {
  if (!source.is("if") || source.outputs.empty()) return std::nullopt;
  const ConstantPtr* predicate = constant_of(r.seen(source.input(0)));
  if (!predicate) return std::nullopt;
  const Block& taken = *source.blocks[(*predicate)->scalar() != 0 ? 0 : 1];
  r.copy_operations(taken);
  return r.now(taken.results);
}

}  // namespace mpsgraph::compiler
