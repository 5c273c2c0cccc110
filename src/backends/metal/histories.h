// How many values each history of a program may ever hold: MPSGraph's tensors have fixed shapes, so a history is a
// tensor with room for all of them.
//
// Histories between which values flow, from a push to its result or around a loop, have the same room: as many values
// as all their pushes add up to. That bounds it where loops make a number of iterations that is known, and nowhere
// else.
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

  // The rooms of a history, and of the histories that it holds; none of another tensor. UnsupportedError where a loop's
  // iterations cannot be counted.
  Dims rooms(const Tensor* tensor) const;

 private:
  // One axis of room: of a tensor, and how deep within it.
  using Place = std::pair<const Tensor*, int>;
  struct Room {
    int64_t values = 0;
    const Operation* uncounted = nullptr;  // a loop
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
