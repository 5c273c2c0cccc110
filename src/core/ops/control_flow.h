// What the files of the family control_flow share.
//
// The operations and their inference stand in control_flow.cpp, the histories that loops keep for their derivatives in
// control_flow_history.cpp, the derivatives in control_flow_gradients.cpp.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

void d_if(GradientContext& g);
void d_for(GradientContext& g);
void d_while(GradientContext& g);

// Of the tensors from the first on.
std::vector<TensorType> types_of(const std::vector<Tensor*>& tensors, size_t first = 0);

// An attribute of loops: how many of the values that go around, the last ones, begin at zero (a history: empty) instead
// of at an operand. Derivatives add them to loops that stand already, where no operand could be made any more.
inline constexpr std::string_view from_zero = "from_zero";

// While the derivative of a block is built elsewhere, gives what the rules need of the block's own tensors. Constants,
// shape computations and what else costs nothing are repeated, so that inference still sees through them; all others
// are saved where the block runs, because running it twice would draw its random numbers and make its assignments
// twice.
class Mocks {
 public:
  explicit Mocks(const Block& hidden);
  virtual ~Mocks();
  Mocks(const Mocks&) = delete;
  Mocks& operator=(const Mocks&) = delete;

 protected:
  virtual Tensor* save(Tensor* inner) = 0;                  // makes the block keep it, and gives it here
  virtual bool repeatable(const Operation& origin);         // may be computed again instead

  Graph& graph() const { return *hidden_.graph; }
  const Block& hidden() const { return hidden_; }
  std::unordered_map<const Tensor*, Tensor*> saved_;

 private:
  Tensor* stand_in(Tensor* inner);

  const Block& hidden_;
  int depth_ = 0;
  std::unordered_map<const Tensor*, Tensor*> repeated_;
};

}  // namespace mpsgraph::ops
