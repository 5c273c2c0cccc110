// How the folded constants of a program were computed, so that they can be computed again for other sizes.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// The operation that a constant replaces. Its operands are constants, which may have recipes of their own.
struct Recipe {
  const OperationDefinition* definition;
  Attributes attributes;
  std::vector<ConstantPtr> operands;
  std::vector<TensorType> types;  // of the results
  size_t result = 0;  // index of the result that is the constant
  bool power_of_two = false;  // whether the pass relied on the constant being a power of 2
};

// Constant indices that a pass found to be valid, so that nothing checks them during a run. Indices that are the same
// for all sizes have the same hash.
struct ValidIndices {
  uint64_t hash = 0;
  int64_t least = 0, end = 0;  // the smallest index, and the largest plus 1
  Ints lengths;  // of the axes that they index
};

class Recipes {
 public:
  const Recipe* find(const ConstantPtr& value) const;  // null if the constant was not computed, or by a long recipe

  const std::vector<ValidIndices>& valid_indices() const { return valid_indices_; }

  // Records, for the program whose passes are running in this thread, a recipe, or that a scalar is the element of a
  // constant whose elements are all equal.
  static void note(const ConstantPtr& value, Recipe recipe);
  static void note_element(const ConstantPtr& scalar, const ConstantPtr& of);
  // Records valid indices for the program whose passes are running in this thread.
  static void note_valid(const Ints& indices, const Ints& lengths);
  class Scope {
   public:
    explicit Scope(Recipes& recipes);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Recipes* outer_;
  };

 private:
  struct Entry {
    ConstantPtr value;  // kept alive, so that no other constant has its address
    Recipe recipe;
    size_t length;  // number of operations, including those of the operands
  };
  void enter(const ConstantPtr& value, Recipe recipe);

  std::unordered_map<const ConstantData*, Entry> entries_;
  std::vector<ValidIndices> valid_indices_;
};

// The results of an operation on constants, as the pass fold computes them; empty if they cannot be computed.
std::vector<ConstantPtr> folded_values(const OperationDefinition& definition, const Attributes& attributes,
                                       const std::vector<ConstantPtr>& operands, const std::vector<TensorType>& types);

}  // namespace mpsgraph::compiler
