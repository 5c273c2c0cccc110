// Rewrite project_lookups: a lookup in a constant table, followed by a matmul with constant weights, becomes a lookup
// in the product of the table and the weights.
//
//   %e = gather(%table, %i) {axis=0}                 %e = gather(%table·%w, %i) {axis=0}
//   %y = matrix_multiplication(%e, %w)         ->    %y = %e
// The input weights of a recurrent layer after an embedding are handled in the same way. The layer then takes the
// projected gate inputs, so each time step reads one row of the table instead of all input weights. Operations between
// lookup and matmul may move rows but must not change their elements. The rewrite is only applied if the new table is
// no larger than the constants it replaces.
#include <algorithm>

#include "compiler/inference.h"
#include "compiler/passes.h"
#include "compiler/rewrite.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

// A lookup of rows in a constant table whose result reaches a matmul, and the operations between the lookup and the
// matmul, which keep each row intact.
struct Lookup {
  const Operation* gather;
  ConstantPtr table;  // table of shape [rows, width]
  std::vector<const Operation*> between;  // the operations between lookup and matmul, in program order

  static std::optional<Lookup> behind(const Tensor* source) {
    Lookup result{};
    for (const Operation* operation = source->operation; !operation->inputs.empty();
         operation = operation->input(0)->operation) {
      if (operation->is("gather")) {
        const ConstantPtr* table = constant_of(operation->input(0));
        const Attributes& a = operation->attributes;
        const int64_t axis = a.integer("axis");
        const bool of_rows = (axis == 0 || axis == -2) && a.integer("batch_dimensions") == 0;
        if (!table || (*table)->dims().size() != 2 || !of_rows) return {};
        result.gather = operation;
        result.table = *table;
        std::reverse(result.between.begin(), result.between.end());
        return result;
      }
      if (!keeps_rows(*operation)) return {};
      result.between.push_back(operation);
    }
    return {};
  }

  // The same lookup, performed in another table.
  Tensor* of(Rewriter& r, const ConstantPtr& projected) const {
    Tensor* value =
        r.create(*gather, "gather", {r.constant(*gather->input(0)->operation, projected), r.now(gather->input(1))},
                 gather->attributes)
            ->output();
    for (const Operation* operation : between) {
      std::vector<Tensor*> inputs = r.now(operation->inputs);
      inputs[0] = value;
      if (operation->is("reshape")) inputs[1] = with_last(r, *operation->input(1), projected->dims()[1]);
      value = r.create(*operation, operation->kind(), std::move(inputs), operation->attributes)->output();
    }
    return value;
  }

 private:
  static bool keeps_rows(const Operation& operation) {
    if (operation.is("transpose")) {
      const Ints& permutation = operation.attributes.integers("permutation");
      const auto last = static_cast<int64_t>(permutation.size()) - 1;
      return !permutation.empty() && (permutation.back() == last || permutation.back() == -1);
    }
    if (!operation.is({"reshape", "expand_dims", "squeeze"})) return false;
    if (operation.is("reshape") && !constant_of(operation.input(1))) return false;
    const Shape &before = operation.input(0)->type.shape, &after = operation.output()->type.shape;
    if (!before.ranked() || !after.ranked() || before.rank() == 0 || after.rank() == 0) return false;
    const int64_t width = before[before.rank() - 1];
    return width > 1 && width == after[after.rank() - 1];
  }

  static Tensor* with_last(Rewriter& r, const Tensor& shape, int64_t last) {
    const ConstantPtr& dims = *constant_of(&shape);
    Ints values;
    for (int64_t i = 0; i < dims->elements(); ++i) values.push_back(dims->integer(i));
    values.back() = last;
    return r.constant(*shape.operation, integer_constant(shape.type, values));
  }
};

// The product of the table and the weights, which are transposed first if `transposed` is set. Null if the product
// would take more memory than the table and the weights.
ConstantPtr projected(const Lookup& lookup, const Tensor* weights, bool transposed) {
  const ConstantPtr* value = constant_of(weights);
  if (!value || (*value)->dims().size() != 2) return nullptr;
  const int64_t rows = lookup.table->dims()[0], width = lookup.table->dims()[1],
                results = (*value)->elements() / std::max<int64_t>(width, 1);
  if (results < 2 || rows * results > width * (rows + results)) return nullptr;
  const ConstantPtr factor = transposed ? computed("transpose", {*value}, {{"permutation", Ints{1, 0}}}) : *value;
  return factor ? computed("matrix_multiplication", {lookup.table, factor}) : nullptr;
}

Rewriter::Replacement of_product(Rewriter& r, const Operation& operation) {
  const auto lookup = Lookup::behind(operation.input(0));
  if (!lookup || operation.input(0)->type.shape.rank() < 2) return {};
  const ConstantPtr table = projected(*lookup, operation.input(1), false);
  if (!table) return {};
  return std::vector<Tensor*>{lookup->of(r, table)};
}

Rewriter::Replacement of_recurrent_layer(Rewriter& r, const Operation& operation) {
  // Positions of the operands source and input_weight in the recurrent layers; they are the same for RNN, LSTM, and
  // GRU.
  constexpr size_t source = 0, input_weight = 2;
  const auto lookup = Lookup::behind(operation.input(source));
  if (!lookup) return {};
  const ConstantPtr table = projected(*lookup, operation.input(input_weight), true);
  if (!table) return {};
  std::vector<Tensor*> inputs = r.now(operation.inputs);
  inputs[source] = lookup->of(r, table);
  inputs.erase(inputs.begin() + input_weight);
  Attributes attributes = operation.attributes;
  attributes.set("has_input_weight", false);
  return results_of(*r.create(operation, operation.kind(), std::move(inputs), std::move(attributes)));
}

bool takes_inputs(const Operation& operation) {
  return (operation.is({"single_gate_rnn", "lstm", "gru"})) && operation.attributes.boolean("has_input_weight");
}

}  // namespace

void project_lookups(Program& program) {
  rewrite(program, [](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (!operation.control_dependencies.empty()) return {};
    if (operation.is("matrix_multiplication")) return of_product(r, operation);
    return takes_inputs(operation) ? of_recurrent_layer(r, operation) : std::nullopt;
  });
}

}  // namespace mpsgraph::compiler
