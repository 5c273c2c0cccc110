// Builds the dependencies in one walk in program order, tracking the last uses of each variable.
#include "compiler/dependencies.h"

#include <algorithm>

namespace mpsgraph::compiler {

bool is_alias(const Operation& operation) {
  return operation.is({"identity", "reshape", "expand_dims", "squeeze", "flatten2d", "optimization_barrier"});
}

Dependencies::Dependencies(const Block& block) : positions_(block) {
  State state;
  // For each operation whose result aliases a variable's memory, the variable.
  std::vector<const Tensor*> variable_of(block.operations.size());
  ends_.reserve(block.operations.size() + 1);
  for (int i = 0; i < static_cast<int>(block.operations.size()); i++) {
    const Operation& operation = *block.operations[i];
    for_each_operand(operation, [&](Tensor* in) {
      const int made = position(in->operation);
      if (made < 0 || made >= i) return;
      before_.push_back(made);
      if (const Tensor* variable = variable_of[made]) state.using_value[variable].push_back(i);
    });
    for (const Operation* before : operation.control_dependencies)
      if (const int at = position(before); at >= 0 && at < i) before_.push_back(at);
    add_state(operation, i, state);
    if (operation.is("read"))
      variable_of[i] = operation.input(0);
    else if (is_alias(operation))
      if (const int made = position(operation.input(0)->operation); made >= 0) variable_of[i] = variable_of[made];
    const auto mine = before_.begin() + static_cast<std::ptrdiff_t>(ends_.back());
    std::sort(mine, before_.end());
    before_.erase(std::unique(mine, before_.end()), before_.end());
    ends_.push_back(before_.size());
  }
}

Lists<int> Dependencies::users() const {
  const int n = static_cast<int>(ends_.size()) - 1;
  return {static_cast<size_t>(n), [&](const auto& add) {
            for (int i = 0; i < n; i++)
              for (int d : before(i)) add(d, i);
          }};
}

// A read depends on the preceding assign of its variable. An assign depends on all operations that use the variable's
// old value, and on all preceding checks, because a check that fails must end the run before the assign. Each check
// depends on the preceding check, so that an assign needs only one dependency, on the last check, however many there
// are.
void Dependencies::add_state(const Operation& operation, int i, State& state) {
  for (const auto& block : operation.blocks)
    for (const auto& inner : block->operations) add_state(*inner, i, state);
  const auto after = [&](int d) {
    if (d >= 0 && d != i) before_.push_back(d);
  };
  if (operation.is("call")) {
    after(state.last_call);
    state.last_call = i;
  }
  if (operation.is("print")) {
    after(state.last_print);
    state.last_print = i;
  }
  if (operation.is("check_indices")) {
    after(state.last_check);
    state.last_check = i;
  }
  if (operation.is("assign")) after(state.last_check);
  if (!operation.is({"read", "assign"})) return;
  const Tensor* variable = operation.input(0);
  if (const auto found = state.last_assign.find(variable); found != state.last_assign.end()) after(found->second);
  if (operation.is("read")) {
    state.using_value[variable].push_back(i);
    return;
  }
  for (int user : state.using_value[variable]) after(user);
  state.using_value[variable].clear();
  state.last_assign[variable] = i;
}

}  // namespace mpsgraph::compiler
