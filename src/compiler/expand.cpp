// Compiler pass expand: replaces composites and convenience operations with operations for which every backend has
// kernels.
//
//   %m = mean(%x) {axes=[0]}    ->  %s = reduction_sum(%x) {axes=[0]};  %m = division(%s, %count)
//   %e = expand_dims(%x)        ->  %e = reshape(%x, %shape); also squeeze and flatten2d
//   %s = stack(%a, %b)          ->  %s = concat(%a', %b') of reshaped operands
// An operation with a decomposition is kept only if the program's target keeps it.
#include <algorithm>

#include "compiler/passes.h"
#include "core/definition.h"
#include "core/kind_table.h"
#include "core/ops/shape.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

using Operands = std::vector<Tensor*>;
using Expansion = Operands (*)(Rewriter&, const Operation& source, const Operands& inputs);

Operands as_reshape(Rewriter& r, const Operation& source, const Operands& inputs) {
  Tensor* shape = Builder(r.graph()).ints(source.output()->shape().dims());
  return {r.create(source, "reshape", {inputs[0], shape})->output()};
}

Operands as_constant_shape(Rewriter& r, const Operation& source, const Operands& inputs) {
  return {r.constant(source, integer_constant(source.output()->type, inputs[0]->shape().dims()))};
}

Operands as_concat(Rewriter& r, const Operation& source, const Operands& inputs) {
  Builder b(r.graph());
  Dims dims = source.output()->shape().dims();
  const int axis = ops::wrap_axis(source.attributes.integer("axis"), static_cast<int>(dims.size()));
  dims[axis] = 1;
  Operands parts;
  for (Tensor* input : inputs) parts.push_back(b.reshape(input, dims));
  return {r.create(source, "concat", parts, {{"axis", int64_t{axis}}})->output()};
}

const KindTable<Expansion> expansions = {
    {"expand_dims", as_reshape},     {"squeeze", as_reshape}, {"flatten2d", as_reshape},
    {"shape_of", as_constant_shape}, {"stack", as_concat},
};

// A different kind of operation that computes the same result as `op`; the empty kind if there is none.
Kind synonym(const Operation& op) {
  if (op.is("reverse_square_root")) return "reciprocal_square_root";
  if (op.is("conjugate") && !is_complex(op.input(0)->dtype())) return "identity";
  if (op.is("absolute_square") && !is_complex(op.input(0)->dtype())) return "square";
  return {};
}

bool expands(const Operation& op, const Program& program) {
  if (expansions.contains(op.kind()) || synonym(op)) return true;
  return op.definition->decompose && !(program.target.keeps && program.target.keeps(op));
}

Operands expanded(Rewriter& r, const Operation& op) {
  const Operands inputs = r.now(op.inputs);
  if (const Expansion* expansion = expansions.find(op.kind())) return (*expansion)(r, op, inputs);
  if (const Kind same = synonym(op)) return {r.create(op, same, inputs)->output()};
  Builder b(r.graph());
  return decomposed(b, op, inputs);
}

}  // namespace

void expand(Program& program) {
  const auto wanted = [&](const Operation& op) { return expands(op, program); };
  while (any_operation(program, wanted)) {  // decompositions may contain composites
    rewrite(program, [&](Rewriter& r, const Operation& op) {
      return wanted(op) ? Rewriter::Replacement(expanded(r, op)) : std::nullopt;
    });
  }
}

}  // namespace mpsgraph::compiler
