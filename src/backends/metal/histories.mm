// Merges the histories between which values flow into groups, then counts the pushes to each group, including
// repetitions by loops.
#include "backends/metal/histories.h"

#include <algorithm>
#include <optional>

#include "core/known_values.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph::metal {
namespace {

// Return the number of a loop's iterations if it is known.
std::optional<int64_t> iterations(const Operation& loop) {
  if (!loop.is("for")) return {};
  int64_t bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const auto value = constant_value(loop.input(i));
    if (!value) return {};
    bounds[i] = value->front();
  }
  const auto [lower, upper, step] = bounds;
  if (step == 0) return {};
  const int64_t distance = step > 0 ? upper - lower : lower - upper, stride = step > 0 ? step : -step;
  return distance <= 0 ? 0 : (distance + stride - 1) / stride;
}

}  // namespace

Histories::Histories(const compiler::Program& program) {
  visit(program.graph->root());
  for (const Operation* push : pushes_) count(*push);
}

Dims Histories::rooms(const Tensor* tensor) const {
  Dims dims;
  for (int depth = 0; depth < tensor->type.history; ++depth) {
    const auto room = rooms_.find(found({tensor, depth}));
    if (room != rooms_.end() && room->second.uncounted) {
      const Operation& loop = *room->second.uncounted;
      throw UnsupportedError(cat(
          "[", loop.kind(),
          "] on the Metal device: the derivative needs the values of every iteration, but the number of ",
          "iterations is only known at run time, while MPSGraph's tensors have fixed shapes; use for_ with constant ",
          "bounds, or device=\"cpu\"", loop.where()));
    }
    dims.push_back(room == rooms_.end() ? 1 : std::max<int64_t>(room->second.values, 1));
  }
  return dims;
}

Histories::Place Histories::found(Place place) const {
  for (auto next = joined_.find(place); next != joined_.end(); next = joined_.find(place)) place = next->second;
  return place;
}

void Histories::join(Place a, Place b) {
  const Place from = found(a), to = found(b);
  if (from != to) joined_[from] = to;
}

void Histories::join_all(const Tensor* a, const Tensor* b) {
  for (int depth = 0; depth < a->type.history; ++depth) join({a, depth}, {b, depth});
}

void Histories::visit(const Block& block) {
  for (const auto& operation : block.operations) visit(*operation);
}

void Histories::visit(const Operation& operation) {
  for (const auto& block : operation.blocks) visit(*block);
  const auto holds = [&](const Tensor* history, const Tensor* value) {
    for (int depth = 0; depth < value->type.history; ++depth) join({history, depth + 1}, {value, depth});
  };
  if (operation.is("if")) {
    for (size_t i = 0; i < operation.outputs.size(); ++i)
      for (const auto& block : operation.blocks) join_all(operation.output(i), block->results[i]);
  } else if (operation.is({"for", "while"})) {
    const bool counts = operation.is("for");
    const Block &first = *operation.blocks.front(), &last = *operation.blocks.back();
    const size_t arguments = counts ? 1 : 0, operands = counts ? 3 : 0;
    for (size_t i = 0; i < last.results.size(); ++i) {
      join_all(first.arguments[arguments + i], last.results[i]);
      if (operands + i < operation.inputs.size())
        join_all(first.arguments[arguments + i], operation.input(operands + i));
    }
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      join_all(operation.output(i), counts ? first.arguments[1 + i] : first.results[1 + i]);
      if (!counts) join_all(operation.output(i), last.arguments[i]);
    }
  } else if (operation.is("history_pop")) {
    join_all(operation.output(0), operation.input(0));
    holds(operation.input(0), operation.output(1));
  } else if (operation.is("history_push")) {
    join_all(operation.output(), operation.input(0));
    holds(operation.input(0), operation.input(1));
    pushes_.push_back(&operation);
  } else if (operation.is("history_addition")) {
    for (const Tensor* input : operation.inputs) join_all(operation.output(), input);
  } else if (operation.is("identity")) {
    join_all(operation.output(), operation.input(0));
  }
}

// A push runs once per iteration of each enclosing loop that carries its history. In other loops, the history is new in
// each iteration.
void Histories::count(const Operation& push) {
  const Place place = found({push.output(), 0});
  Room& room = rooms_[place];
  int64_t times = 1;
  for (const Operation* around = push.parent->owner; around; around = around->parent->owner) {
    if (around->is("if") || !goes_around(*around, place)) continue;
    const auto counted = iterations(*around);
    if (!counted) room.uncounted = around;
    times *= counted.value_or(1);
  }
  room.values += times;
}

bool Histories::goes_around(const Operation& loop, const Place& place) const {
  return std::ranges::any_of(loop.blocks, [&](const auto& block) {
    return std::ranges::any_of(block->arguments, [&](const Tensor* argument) {
      for (int depth = 0; depth < argument->type.history; ++depth)
        if (found({argument, depth}) == place) return true;
      return false;
    });
  });
}

}  // namespace mpsgraph::metal
