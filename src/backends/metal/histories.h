// Histories computes the largest number of values that each history of a program may hold. A history is the stack of
// values that a loop's iterations push for its derivative. MPSGraph's tensors have fixed shapes, so a history is a
// tensor with room for all of these values.
//
// If values flow from one history to another, such as from the operand of a push to its result or around a loop, both
// have the same capacity: the total number of values that the pushes to all connected histories add. This number is
// bounded only if the number of loop iterations is known.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::metal {

class Histories {
 public:
  explicit Histories(const compiler::Program& program);

  // Return the capacities of a history and of the histories nested in it, outermost first. Returns an empty list for
  // other tensors. Throws UnsupportedError if the iterations of a loop cannot be counted.
  Dims rooms(const Tensor* tensor) const;

 private:
  // A history, or one nested in it: the tensor that holds it, and the depth of the nesting (0 for the outermost
  // history).
  using Place = std::pair<const Tensor*, int>;
  struct Room {
    int64_t values = 0;
    const Operation* uncounted = nullptr;  // an enclosing loop whose iterations cannot be counted, or null
  };

  Place found(Place place) const;
  void join(Place a, Place b);
  void join_all(const Tensor* a, const Tensor* b);
  void visit(const Block& block);
  void visit(const Operation& operation);
  void count(const Operation& push);
  bool goes_around(const Operation& loop, const Place& place) const;

  std::map<Place, Place> joined_;
  std::map<Place, Room> rooms_;
  std::vector<const Operation*> pushes_;
};

}  // namespace mpsgraph::metal
