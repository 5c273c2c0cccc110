// Declarations shared by the files of the family control_flow.
//
// The operations and their inference are in control_flow.cpp. The histories in which loops save values for their
// derivatives are in control_flow_history.cpp, and the derivatives are in control_flow_gradients.cpp.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

void d_if(GradientContext& g);
void d_for(GradientContext& g);
void d_while(GradientContext& g);

// Types of tensors[first] and all following tensors.
std::vector<TensorType> types_of(const std::vector<Tensor*>& tensors, size_t first = 0);

// Loop attribute: the number of trailing carried values that start at zero (or, for a history, empty) instead of at an
// operand. Differentiation adds carried values to loops that exist already, to which it cannot add operands.
inline constexpr std::string_view from_zero = "from_zero";

// Supplies substitutes for the tensors of a block while the derivative of that block is built in a different block.
// Cheap operations (constants, shape arithmetic) are repeated in the other block so that inference can still evaluate
// them. All other tensors are saved when the original block runs, because running their operations again would draw new
// random numbers and repeat assignments.
class Substitutes {
 public:
  explicit Substitutes(const Block& hidden);
  virtual ~Substitutes();
  Substitutes(const Substitutes&) = delete;
  Substitutes& operator=(const Substitutes&) = delete;

 protected:
  // Adds the tensor to the values that the block saves, and returns the saved value in the current block.
  virtual Tensor* save(Tensor* inner) = 0;
  // Whether to recompute the operation instead of saving its result.
  virtual bool repeatable(const Operation& origin);

  Graph& graph() const { return *hidden_.graph; }
  const Block& hidden() const { return hidden_; }
  std::unordered_map<const Tensor*, Tensor*> saved_;

 private:
  Tensor* substitute(Tensor* inner);

  const Block& hidden_;
  int depth_ = 0;
  std::unordered_map<const Tensor*, Tensor*> repeated_;
};

}  // namespace mpsgraph::ops
