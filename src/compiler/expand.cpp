// expand: composites and conveniences become the operations that every backend has kernels for.
//
//   %m = mean(%x) {axes=[0]}    ->  %s = reduction_sum(%x) {axes=[0]};  %m = division(%s, %count)
//   %e = expand_dims(%x)        ->  %e = reshape(%x, %shape);  likewise squeeze, flatten2d
//   %s = stack(%a, %b)          ->  %s = concat(%a', %b') of reshaped operands
// An operation with a decomposition stays only if the program lists it among its native composites.
#include <algorithm>
#include <unordered_map>

#include "compiler/passes.h"
#include "core/builder.h"
#include "core/definition.h"
#include "core/ops/shape.h"

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

const std::unordered_map<std::string_view, Expansion> expansions = {
    {"expand_dims", as_reshape},
    {"squeeze", as_reshape},
    {"flatten2d", as_reshape},
    {"shape_of", as_constant_shape},
    {"stack", as_concat},
};

// Several names for one computation on real numbers.
const std::unordered_map<std::string_view, std::string_view> synonyms = {
    {"conjugate", "identity"},
    {"absolute_square", "square"},
    {"reverse_square_root", "reciprocal_square_root"},
};

}  // namespace

void expand(Program& program) {
  auto native = [&](std::string_view kind) {
    const auto& kinds = program.native_composites;
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  bool again = true;  // decompositions may use composites
  while (again) {
    again = false;
    rewrite(program, [&](Rewriter& r, const Operation& op) -> Rewriter::Replacement {
      const auto found = expansions.find(op.kind());
      if (found != expansions.end()) return found->second(r, op, r.now(op.inputs));
      const auto synonym = synonyms.find(op.kind());
      if (synonym != synonyms.end()) return Operands{r.create(op, synonym->second, r.now(op.inputs))->output()};
      if (!op.definition->decompose || native(op.kind())) return {};
      again = true;
      Builder b(r.graph());
      return op.definition->decompose(b, r.now(op.inputs), op.attributes);
    });
  }
}

}  // namespace mpsgraph::compiler
