// Part of fuse_elementwise: large element-wise values that a much later region uses are computed again there, instead
// of staying in memory from the forward to the backward pass.
//
//   %s = sigmoid(%x)                          %s = sigmoid(%x)
//   %y = multiplication(%x, %s)               %y = multiplication(%x, %s)
//   ... matmuls ...                     ->    ... matmuls ...
//   %d = multiplication(%g, %s)               %s' = sigmoid(%x);  %d = multiplication(%g, %s')
//
// This needs less memory and is faster, too: the first region does not write the value, and the second one reads %x
// anyway. A value is only computed again from values that stay in memory in any case, and only if all its late users
// can do so.
#include <algorithm>
#include <unordered_map>

#include "compiler/dependencies.h"
#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

constexpr size_t least_bytes = size_t{1} << 20;  // smaller values stay in a processor's caches
constexpr int least_distance = 3;  // matmuls and the like between a value and a late user
constexpr size_t most_operations = 16;
constexpr size_t most_expensive = 2;

bool is_plain_elementwise(const Operation& operation) {
  return operation.definition->elementwise && !is_alias(operation) && operation.outputs.size() == 1;
}

bool is_expensive(const Operation& operation) {
  return operation.is({"exponent", "logarithm", "tanh", "erf", "sigmoid", "power", "sin", "cos", "division"});
}

size_t memory_of(const Tensor* tensor) {
  size_t bytes = size_of(tensor->dtype());
  for (const int64_t size : tensor->shape().dims()) bytes *= static_cast<size_t>(size);
  return bytes;
}

class Recomputation {
 public:
  explicit Recomputation(const Program& program)
      : users_(program),
        positions_(program.graph->operation_count(), -1),
        depths_(program.graph->operation_count(), 0) {
    int position = 0;
    for (const auto& operation : program.graph->root().operations) {
      positions_[operation->id] = position++;
      int depth = 0;
      for_each_operand(*operation, [&](const Tensor* in) { depth = std::max(depth, depths_[in->operation->id]); });
      const bool computes = !is_plain_elementwise(*operation) && !is_alias(*operation) && !operation->inputs.empty();
      depths_[operation->id] = depth + (computes ? 1 : 0);
    }
    for (const auto& operation : program.graph->root().operations) {
      if (!is_plain_elementwise(*operation) || memory_of(operation->output()) < least_bytes) continue;
      const auto late = late_users(operation->output());
      const auto repeats = [&](const Operation* user) { return repeats_for(operation->output(), *user); };
      if (late.empty() || !std::ranges::all_of(late, repeats)) continue;
      for (const Operation* user : late) again_[user].push_back(operation->output());
    }
  }

  bool is_empty() const { return again_.empty(); }

  // Copies an operation that uses values to be computed again, behind these computations.
  Rewriter::Replacement visit(Rewriter& rewriter, const Operation& operation) {
    const auto found = again_.find(&operation);
    if (found == again_.end()) return std::nullopt;
    std::vector<Tensor*> inputs;
    for (const Tensor* in : operation.inputs) {
      const bool again = std::ranges::find(found->second, in) != found->second.end();
      inputs.push_back(again ? made_again(rewriter, in, operation) : rewriter.now(in));
    }
    return std::vector<Tensor*>{rewriter.append(operation, std::move(inputs), {operation.output()->type})->output()};
  }

 private:
  bool is_late(const Tensor* value, const Operation& user) const {
    return depths_[user.id] >= depths_[value->operation->id] + least_distance;
  }

  // The late users of a value, empty if it must stay in memory for one of them.
  std::vector<const Operation*> late_users(const Tensor* value) const {
    std::vector<const Operation*> late;
    for (const Operation* user : users_.of(value)) {
      if (!user || positions_[user->id] < 0) return {};  // a result, or a use in a block
      if (!is_late(value, *user)) continue;
      const bool has_its_shape = is_plain_elementwise(*user) && user->output()->shape() == value->shape();
      if (!has_its_shape || !user->control_dependencies.empty()) return {};
      if (std::ranges::find(late, user) == late.end()) late.push_back(user);
    }
    return late;
  }

  // Whether the value can be computed again at the user, from values that stay in memory until then.
  bool repeats_for(const Tensor* value, const Operation& user) const {
    std::vector<const Operation*> cone{value->operation};
    for (size_t next = 0; next < cone.size(); ++next)
      for (const Tensor* in : cone[next]->inputs) {
        const Operation* source = in->operation;
        if (positions_[source->id] >= 0 && is_plain_elementwise(*source) && memory_of(in) * 2 >= memory_of(value)) {
          if (std::ranges::find(cone, source) == cone.end()) cone.push_back(source);
          if (cone.size() > most_operations) return false;
        } else if (memory_of(in) * 8 > memory_of(value) && !stays(in, user)) {
          return false;
        }
      }
    const auto expensive = std::ranges::count_if(cone, [](const Operation* one) { return is_expensive(*one); });
    return static_cast<size_t>(expensive) <= most_expensive;
  }

  // Whether a value is used by an operation at or after the user, so that it stays in memory until then.
  bool stays(const Tensor* value, const Operation& user) const {
    if (value->operation->is({"variable", "placeholder", "constant"})) return true;
    return std::ranges::any_of(users_.of(value), [&](const Operation* other) {
      return !other || (positions_[other->id] >= 0 && positions_[other->id] >= positions_[user.id]);
    });
  }

  // Users of one depth share a computation, because they can join one region. A control dependency on the user's latest
  // operand keeps fuse_elementwise from moving the computation to the region that computed the value first.
  Tensor* made_again(Rewriter& rewriter, const Tensor* value, const Operation& user) {
    const Operation& source = *value->operation;
    if (positions_[source.id] < 0 || !is_plain_elementwise(source) || memory_of(value) < least_bytes / 8)
      return rewriter.now(value);
    Tensor*& made = made_[depths_[user.id]][value];
    if (!made) {
      std::vector<Tensor*> inputs;
      for (const Tensor* in : source.inputs) inputs.push_back(made_again(rewriter, in, user));
      Operation* copy = rewriter.append(source, std::move(inputs), {value->type});
      const auto depth = [&](const Tensor* in) { return depths_[in->operation->id]; };
      copy->control_dependencies.push_back(rewriter.now(*std::ranges::max_element(user.inputs, {}, depth))->operation);
      made = copy->output();
    }
    return made;
  }

  const Users users_;
  // Indexed by operation id: the position in the root block, or -1, and the largest number of operations other than
  // element-wise ones on a path to the operation.
  std::vector<int> positions_, depths_;
  std::unordered_map<const Operation*, std::vector<const Tensor*>> again_;  // the values to compute again for each user
  std::unordered_map<int, std::unordered_map<const Tensor*, Tensor*>> made_;
};

}  // namespace

void recompute_elementwise(Program& program) {
  Recomputation recomputation(program);
  if (recomputation.is_empty()) return;
  rewrite(program,
          [&](Rewriter& rewriter, const Operation& operation) { return recomputation.visit(rewriter, operation); });
}

}  // namespace mpsgraph::compiler
