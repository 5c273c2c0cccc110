// Builds the dependencies in one walk in program order, tracking the last uses of each variable.
#include "compiler/dependencies.h"

#include <algorithm>

namespace mpsgraph::compiler {

bool is_alias(const Operation& operation) {
  for (std::string_view kind : {"identity", "reshape", "expand_dims", "squeeze", "flatten2d"})
    if (operation.is(kind)) return true;
  return false;
}

void for_each_operand(const Operation& operation, const std::function<void(Tensor*)>& visit) {
  for (Tensor* in : operation.inputs) visit(in);
  for (const auto& block : operation.blocks) {
    for (const auto& inner : block->operations) for_each_operand(*inner, visit);
    for (Tensor* result : block->results) visit(result);
  }
}

Dependencies::Dependencies(const Block& block) : before_(block.operations.size()) {
  State state;
  // Maps each read value that aliases a variable's memory to that variable.
  std::unordered_map<const Tensor*, const Tensor*> variable_of;
  for (int i = 0; i < static_cast<int>(block.operations.size()); i++) {
    const Operation& operation = *block.operations[i];
    std::vector<int>& mine = before_[i];
    for_each_operand(operation, [&](Tensor* in) {
      if (const int made = position(in->operation); made >= 0) mine.push_back(made);
      if (const auto alias = variable_of.find(in); alias != variable_of.end())
        state.using_value[alias->second].push_back(i);
    });
    for (const Operation* before : operation.control_dependencies)
      if (const int at = position(before); at >= 0) mine.push_back(at);
    add_state(operation, i, state);
    if (operation.is("read"))
      variable_of[operation.output()] = operation.input(0);
    else if (is_alias(operation) && variable_of.count(operation.input(0)))
      variable_of[operation.output()] = variable_of[operation.input(0)];
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    position_[&operation] = i;
  }
}

int Dependencies::position(const Operation* operation) const {
  const auto found = position_.find(operation);
  return found == position_.end() ? -1 : found->second;
}

std::vector<std::vector<int>> Dependencies::users() const {
  std::vector<std::vector<int>> users(before_.size());
  for (int i = 0; i < static_cast<int>(before_.size()); i++)
    for (int d : before_[i]) users[d].push_back(i);
  return users;
}

// A read depends on the preceding assign of its variable. An assign depends on all operations that use the variable's
// old value, and on all preceding checks, because a check that fails must end the run before the assign. Each check
// depends on the preceding check, so that an assign needs only one dependency, on the last check, however many there
// are.
void Dependencies::add_state(const Operation& operation, int i, State& state) {
  for (const auto& block : operation.blocks)
    for (const auto& inner : block->operations) add_state(*inner, i, state);
  const auto after = [&](int d) {
    if (d >= 0 && d != i) before_[i].push_back(d);
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
  if (!operation.is("read") && !operation.is("assign")) return;
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
