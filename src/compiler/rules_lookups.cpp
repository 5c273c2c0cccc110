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
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/recipes.h"
#include "compiler/rule.h"
#include "core/known_values.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::compiler {
namespace {

using enum Capture;

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
      if (!known || ops::first_outside(*known, {rows}) >= 0) return false;
      Recipes::note_valid(*known, {rows});
      return true;
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

// The tensor with zeros in the rows that `indices` do not select. It has one row for each row of the table.
Tensor* of_used_rows(Site& s, Tensor* tensor, Tensor* indices) {
  const TensorType one{tensor->dtype(), Shape{indices->shape().elements(), 1}};
  Tensor* count = by_rows(s, s.b().filled(one, 1), indices, tensor->shape()[0]);
  Tensor* used = s.b().binary("greater_than", count, s.b().scalar_like(count, 0));
  return s.make("select", {used, tensor, s.b().scalar_like(tensor, 0)});
}

Tensor* table_of(const Tensor* gather) { return gather->operation->input(0); }
Tensor* indices_of(const Tensor* gather) { return gather->operation->input(1); }
Tensor* lookup_like(Site& s, const Tensor* gather, Tensor* table, Tensor* indices) {
  return s.make("gather", {table, indices}, gather->operation->attributes);
}

// ---- operations that move whole rows move the indices instead ----

bool moves_rows(const Site& s) { return looks_up(s[x]) && keeps_rows(s[x]->shape(), s.type().shape); }
bool transposes_rows(const Site& s) { return moves_rows(s) && permutation_of_rows(s.source); }
Tensor* lookup_by_reshaped_indices(Site& s) {
  return lookup_like(s, s[x], table_of(s[x]), s.b().reshape(indices_of(s[x]), without_last(s.type().shape)));
}
Tensor* lookup_by_transposed_indices(Site& s) {
  return lookup_like(s, s[x], table_of(s[x]), s.b().transpose(indices_of(s[x]), *permutation_of_rows(s.source)));
}

bool sums_moved_rows(const Site& s) {
  const Operation& before = *s[x]->operation;
  return s.type().shape.rank() == 2 && picks_rows(s.attributes()) &&
         keeps_rows(before.input(0)->shape(), s[x]->shape()) && (before.is("reshape") || permutation_of_rows(before));
}
Tensor* sum_by_moved_indices(Site& s) {
  const Operation& before = *s[x]->operation;
  Tensor *incoming = before.input(0), *indices = s[y];
  if (before.is("reshape")) {
    indices = s.b().reshape(indices, without_last(incoming->shape()));
  } else {
    const Ints permutation = *permutation_of_rows(before);
    Ints back(permutation.size());
    for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    indices = s.b().transpose(indices, back);
  }
  return s.make("gather_gradient", {incoming, indices, s[z]}, s.attributes());
}

// ---- if more rows are looked up than the table has, the table is multiplied instead of the looked-up rows ----

bool looks_up_few(const Tensor* rows) {
  if (!looks_up(rows)) return false;
  const Shape& table = table_of(rows)->shape();
  return few(table[0], indices_of(rows)->shape().elements(), table[1]) && lie_inside(indices_of(rows), table[0]);
}

bool multiplies_lookup(const Site& s) { return is_matrix(s[y]) && looks_up_few(s[x]); }
Tensor* lookup_of_product(Site& s) {
  return lookup_like(s, s[x], s.b().matmul(table_of(s[x]), s[y]), indices_of(s[x]));
}

// Applies only if a matmul precedes the addition, because the two are then fused. After any other operation, the
// addition would be another pass over memory.
bool adds_bias_to_lookup(const Site& s) {
  if (!looks_up(s[x]) || s[x]->type != s.type()) return false;
  const Tensor *table = table_of(s[x]), *indices = indices_of(s[x]);
  const int64_t rows = table->shape()[0], width = table->shape()[1];
  const Shape& bias = s[y]->shape();
  return table->operation->is("matrix_multiplication") && rows < indices->shape().elements() && bias.known() &&
         bias.rank() >= 1 && bias.elements() == width && bias[bias.rank() - 1] == width && lie_inside(indices, rows);
}
Tensor* lookup_of_sum(Site& s) {
  Tensor* table = table_of(s[x]);
  return lookup_like(s, s[x], s.b().add(table, s.b().reshape(s[y], {table->shape()[1]})), indices_of(s[x]));
}

// The weights' gradient from looked-up rows and their incoming gradients, which are first summed per row of the table.
bool multiplies_exact_transpose(const Site& s) {
  return is_matrix(s[x]) && is_matrix(s[y]) && is_exact(s.type().dtype) && permutation_of(s[z]) == Ints{1, 0};
}
bool transposes_lookup(const Site& s) { return multiplies_exact_transpose(s) && looks_up_few(s[x]); }
Tensor* table_times_sums(Site& s) {
  Tensor* used = of_used_rows(s, table_of(s[x]), indices_of(s[x]));
  Tensor* sums = by_rows(s, s[y], indices_of(s[x]), table_of(s[x])->shape()[0]);
  return s.make("matrix_multiplication", {s.b().swap_last_axes(used), sums});
}
bool transposes_incoming(const Site& s) { return multiplies_exact_transpose(s) && looks_up_few(s[y]); }
Tensor* sums_times_table(Site& s) {
  Tensor* used = of_used_rows(s, table_of(s[y]), indices_of(s[y]));
  Tensor* sums = by_rows(s, s[x], indices_of(s[y]), table_of(s[y])->shape()[0]);
  return s.make("matrix_multiplication", {s.b().swap_last_axes(sums), used});
}

bool sums_product(const Site& s) {
  if (s.type().shape.rank() != 2 || !picks_rows(s.attributes()) || !is_exact(s.type().dtype)) return false;
  const int64_t rows = s.dims()[0];
  return is_matrix(s[x]) && is_matrix(s[y]) && few(rows, s[x]->shape()[0], s[y]->shape()[1]) && lie_inside(s[z], rows);
}
Tensor* product_of_sums(Site& s) {
  return of_used_rows(s, s.b().matmul(by_rows(s, s[x], s[z], s.dims()[0]), s[y]), s[z]);
}

}  // namespace

std::vector<Rule> rules_of_lookups() {
  return {
      {op("reshape", op("gather").as(x), any), moves_rows, lookup_by_reshaped_indices},
      {op("transpose", op("gather").as(x)), transposes_rows, lookup_by_transposed_indices},
      {op("gather_gradient", op({"reshape", "transpose"}).as(x), y, z), sums_moved_rows, sum_by_moved_indices},
      {op("matrix_multiplication", op("gather").as(x), y), multiplies_lookup, lookup_of_product},
      {op("addition", op("gather").as(x), y), adds_bias_to_lookup, lookup_of_sum},
      {op("matrix_multiplication", op("transpose", x).as(z), y), transposes_lookup, table_times_sums},
      {op("matrix_multiplication", op("transpose", x).as(z), y), transposes_incoming, sums_times_table},
      {op("gather_gradient", op("matrix_multiplication", x, y), z, any), sums_product, product_of_sums},
  };
}

}  // namespace mpsgraph::compiler
