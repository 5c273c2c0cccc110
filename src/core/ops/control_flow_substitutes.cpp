// Substitutes for the tensors of a block whose derivative is built in a different block: each tensor is either saved or
// recomputed.
#include "core/known_values.h"
#include "core/ops/control_flow.h"

namespace mpsgraph::ops {
namespace {

// maximum depth of a chain of recomputed operations; results of longer chains are saved
constexpr int max_repeated_depth = 64;

}  // namespace

Substitutes::Substitutes(const Block& hidden) : hidden_(hidden) {
  graph().begin_substitution(hidden, [this](Tensor* inner) { return substitute(inner); });
}

Substitutes::~Substitutes() { graph().end_substitution(); }

bool Substitutes::repeatable(const Operation& origin) {
  if (origin.is("constant")) return true;
  if (origin.outputs.size() != 1 || !is_shape_arithmetic(origin.kind())) return false;
  const TensorType& type = origin.output()->type;
  return is_integer(type.dtype) && type.shape.ranked() && type.shape.rank() <= 1;
}

Tensor* Substitutes::substitute(Tensor* inner) {
  if (const auto found = saved_.find(inner); found != saved_.end()) return found->second;
  if (const auto found = repeated_.find(inner); found != repeated_.end()) {
    if (found->second->operation->parent->encloses(&graph().current_block())) return found->second;
  }
  const Operation& origin = *inner->operation;
  if (depth_ >= max_repeated_depth || !repeatable(origin)) return saved_[inner] = save(inner);
  ++depth_;
  Operation* copy = graph().create(origin.kind(), origin.inputs, origin.attributes);
  --depth_;
  return repeated_[inner] = copy->output(static_cast<size_t>(inner->index));
}

}  // namespace mpsgraph::ops
