// Rules for rows that are looked up in a table and multiplied by weights, as in a recurrent layer after an embedding,
// and for the gradients of such products. A batch of text has thousands of words but few distinct words. If more rows
// are looked up in a table than the table has, the table is multiplied by the weights instead of the looked-up rows.
//
//   %e = gather(%table, %i)                      %p = matrix_multiplication(%table, %w)
//   %y = matrix_multiplication(%e, %w)      ->   %y = gather(%p, %i)
// In the gradients, the incoming gradient %d is first summed for each row of the table:
//   %s = gather_gradient(%d, %i)
//   %dw = transpose(%e) · %d                ->   %dw = transpose(%used) · %s
//   %dt = gather_gradient(%d · %wt, %i)     ->   %dt = %s · %wt
// %used is the table with zeros in rows that are not looked up, so that a NaN in such a row cannot reach a gradient.
// The same rows of %dt are set to zero, because an infinite weight would turn them into NaN. All indices must be in
// range, because an out-of-range index selects a row of zeros, which would give NaN with an infinite weight.
#include "compiler/rules_lookups.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/known_values.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::compiler {
namespace {

// Minimum number of multiplications that a rule must save for each element that it moves. If fewer are saved, moving
// the element takes as long as the saved multiplications.
constexpr int64_t worth_moving = 32;

bool picks_rows(const Attributes& a) { return a.integer("axis") == 0 && a.integer("batch_dimensions") == 0; }

// Whether x is a gather of matrix rows with known shapes.
bool looks_up(const Tensor* x) {
  const Operation& gather = *x->operation;
  return gather.is("gather") && gather.input(0)->shape().rank() == 2 && gather.input(0)->shape().known() &&
         gather.input(1)->shape().known() && picks_rows(gather.attributes);
}

// Whether an operation that maps the shape `before` to the shape `after` keeps all rows (elements along the last axis)
// intact. False for rows of a single element.
bool keeps_rows(const Shape& before, const Shape& after) {
  if (!before.known() || !after.known() || before.rank() < 2 || after.rank() < 1) return false;
  const int64_t width = before[before.rank() - 1];
  return width > 1 && width == after[after.rank() - 1] && before.elements() > 0;
}
Dims without_last(const Shape& shape) { return {shape.dims().begin(), shape.dims().end() - 1}; }

std::optional<Ints> permutation_of_rows(const Operation& transpose) {
  Ints permutation = permutation_of(transpose);
  const auto last = static_cast<int64_t>(permutation.size()) - 1;
  if (last < 1 || permutation.back() != last) return std::nullopt;
  permutation.pop_back();
  return permutation;
}

// Whether every index is known to be a valid row of the table.
bool lie_inside(const Tensor* indices, int64_t rows) {
  for (;;) {
    const Operation& from = *indices->operation;
    if (from.is("clamp")) {
      const auto low = constant_value(from.input(1)), high = constant_value(from.input(2));
      return low && high && low->size() == 1 && high->size() == 1 && low->front() >= 0 && high->front() < rows;
    }
    if (from.is("constant")) {
      const auto known = constant_value(indices);
      return known && ops::first_outside(*known, {rows}) < 0;
    }
    if (!from.is({"transpose", "reshape"})) break;
    indices = from.input(0);
  }
  const Block* block = indices->operation->parent;
  return std::ranges::any_of(block->operations, [&](const auto& operation) {
    return operation->is("check_indices") && operation->input(0) == indices &&
           operation->attributes.integers("lengths") == Ints{rows} && operation->attributes.integers("ignored").empty();
  });
}

// Whether the table has so few rows that multiplying all `picks` looked-up rows would cost more than multiplying the
// table and then moving the rows.
bool few(int64_t rows, int64_t picks, int64_t multiplications) {
  return rows < picks && (picks - rows) * multiplications >= worth_moving * picks;
}

bool is_exact(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }
bool is_matrix(const Tensor* x) { return x->shape().rank() == 2 && x->shape().known(); }

// The sum of the incoming gradients for each of the `rows` rows of a table.
Tensor* by_rows(Site& s, Tensor* incoming, Tensor* indices, int64_t rows) {
  const int64_t width = incoming->shape()[incoming->shape().rank() - 1];
  return s.b().graph().add("gather_gradient", {incoming, indices, s.b().ints({rows, width})}, {{"axis", int64_t{0}}});
}

// The tensor x with zeros in the rows that `indices` do not select. x has one row for each row of the table.
Tensor* of_used_rows(Site& s, Tensor* x, Tensor* indices) {
  const TensorType one{x->dtype(), Shape{indices->shape().elements(), 1}};
  Tensor* count = by_rows(s, s.b().filled(one, 1), indices, x->shape()[0]);
  Tensor* used = s.b().binary("greater_than", count, s.b().scalar_like(count, 0));
  return s.make("select", {used, x, s.b().scalar_like(x, 0)});
}

}  // namespace

Tensor* moved_lookup(Site& s) {
  if (!looks_up(s.in[0]) || !keeps_rows(s.in[0]->shape(), s.type().shape)) return nullptr;
  const Operation& gather = *s.in[0]->operation;
  Tensor* indices = gather.input(1);
  if (s.source.is("reshape")) {
    indices = s.b().reshape(indices, without_last(s.type().shape));
  } else {
    const auto permutation = permutation_of_rows(s.source);
    if (!permutation) return nullptr;
    indices = s.b().transpose(indices, *permutation);
  }
  return s.make("gather", {gather.input(0), indices}, gather.attributes);
}

Tensor* moved_gradient(Site& s) {
  const Operation& before = *s.in[0]->operation;
  if (s.type().shape.rank() != 2 || !picks_rows(s.attributes())) return nullptr;
  if (!before.is({"reshape", "transpose"})) return nullptr;
  Tensor *incoming = before.input(0), *indices = s.in[1];
  if (!keeps_rows(incoming->shape(), s.in[0]->shape())) return nullptr;
  if (before.is("reshape")) {
    indices = s.b().reshape(indices, without_last(incoming->shape()));
  } else {
    const auto permutation = permutation_of_rows(before);
    if (!permutation) return nullptr;
    Ints back(permutation->size());
    for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>((*permutation)[i])] = static_cast<int64_t>(i);
    indices = s.b().transpose(indices, back);
  }
  return s.make("gather_gradient", {incoming, indices, s.in[2]}, s.attributes());
}

Tensor* product_of_lookup(Site& s) {
  if (!looks_up(s.in[0]) || !is_matrix(s.in[1])) return nullptr;
  const Operation& gather = *s.in[0]->operation;
  const Shape& table = gather.input(0)->shape();
  if (!few(table[0], gather.input(1)->shape().elements(), table[1]) || !lie_inside(gather.input(1), table[0]))
    return nullptr;
  return s.make("gather", {s.b().matmul(gather.input(0), s.in[1]), gather.input(1)}, gather.attributes);
}

Tensor* bias_of_lookup(Site& s) {
  for (const int i : {0, 1}) {
    Tensor* bias = s.in[1 - i];
    if (!looks_up(s.in[i]) || s.in[i]->type != s.type() || !bias->shape().known()) continue;
    const Operation& gather = *s.in[i]->operation;
    Tensor* table = gather.input(0);
    const int64_t rows = table->shape()[0], width = table->shape()[1];
    // Apply this rule only if a matmul precedes the addition, because the two are then fused. After any other operation
    // the addition would be another pass over memory.
    if (!table->operation->is("matrix_multiplication") || rows >= gather.input(1)->shape().elements()) continue;
    const Shape& shape = bias->shape();
    if (shape.rank() < 1 || shape.elements() != width || shape[shape.rank() - 1] != width) continue;
    if (!lie_inside(gather.input(1), rows)) continue;
    Tensor* sum = s.b().add(table, s.b().reshape(bias, {width}));
    return s.make("gather", {sum, gather.input(1)}, gather.attributes);
  }
  return nullptr;
}

Tensor* weights_gradient_of_lookup(Site& s) {
  Tensor* left = operand_of(s.in[0], "transpose");
  if (!left || !is_matrix(left) || !is_matrix(s.in[1]) || !is_exact(s.type().dtype)) return nullptr;
  if (permutation_of(*s.in[0]->operation) != Ints{1, 0}) return nullptr;
  for (const bool is_left : {true, false}) {
    Tensor *rows = is_left ? left : s.in[1], *incoming = is_left ? s.in[1] : left;
    if (!looks_up(rows)) continue;
    Tensor *table = rows->operation->input(0), *indices = rows->operation->input(1);
    const int64_t count = table->shape()[0], picks = indices->shape().elements();
    if (!few(count, picks, table->shape()[1]) || !lie_inside(indices, count)) continue;
    Tensor* used = of_used_rows(s, table, indices);
    Tensor* sums = by_rows(s, incoming, indices, count);
    return is_left ? s.make("matrix_multiplication", {s.b().swap_last_axes(used), sums})
                   : s.make("matrix_multiplication", {s.b().swap_last_axes(sums), used});
  }
  return nullptr;
}

Tensor* gradient_of_product(Site& s) {
  const Operation& product = *s.in[0]->operation;
  if (!product.is("matrix_multiplication") || s.type().shape.rank() != 2 || !picks_rows(s.attributes())) return nullptr;
  Tensor *incoming = product.input(0), *weights = product.input(1);
  if (!is_exact(s.type().dtype) || !is_matrix(incoming) || !is_matrix(weights)) return nullptr;
  const int64_t rows = s.dims()[0];
  if (!few(rows, incoming->shape()[0], weights->shape()[1]) || !lie_inside(s.in[1], rows)) return nullptr;
  return of_used_rows(s, s.b().matmul(by_rows(s, incoming, s.in[1], rows), weights), s.in[1]);
}

}  // namespace mpsgraph::compiler
