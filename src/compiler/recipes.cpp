// Stores the recipes of folded constants.
#include "compiler/recipes.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

constexpr size_t longest = 64;  // operations of a recipe

thread_local Recipes* current_recipes = nullptr;

}  // namespace

Recipes::Scope::Scope(Recipes& recipes) : outer_(std::exchange(current_recipes, &recipes)) {}
Recipes::Scope::~Scope() { current_recipes = outer_; }

void Recipes::enter(const ConstantPtr& value, Recipe recipe) {
  size_t length = 1;
  for (const ConstantPtr& operand : recipe.operands)
    if (const auto found = entries_.find(operand.get()); found != entries_.end()) length += found->second.length;
  length = std::min(length, longest + 1);
  entries_.insert_or_assign(value.get(), Entry{value, std::move(recipe), length});
}

void Recipes::note(const ConstantPtr& value, Recipe recipe) {
  if (current_recipes) current_recipes->enter(value, std::move(recipe));
}

void Recipes::note_element(const ConstantPtr& scalar, const ConstantPtr& of) {
  note(scalar, {&definition_of(Kind("reshape")), {}, {of}, {{scalar->dtype(), Shape(Dims{})}}});
}

void Recipes::note_valid(const Ints& indices, const Ints& lengths) {
  if (!current_recipes || indices.empty()) return;
  const auto [least, largest] = std::ranges::minmax(indices);
  const std::string_view bytes(reinterpret_cast<const char*>(indices.data()), indices.size() * sizeof indices[0]);
  current_recipes->valid_indices_.push_back({std::hash<std::string_view>()(bytes), least, largest + 1, lengths});
}

const Recipe* Recipes::find(const ConstantPtr& value) const {
  const auto found = entries_.find(value.get());
  return found == entries_.end() || found->second.length > longest ? nullptr : &found->second.recipe;
}

}  // namespace mpsgraph::compiler
