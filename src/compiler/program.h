// Program: the part of a graph that one executable needs, with concrete types.
//
// Specialization copies the operations that the targets and target operations depend on into a new graph, replaces the
// placeholders' types with the types of the feeds, infers all types again, and folds the computations of shapes. Passes
// then rewrite that graph, and a backend lowers it. No type in a Program has an unknown dimension; if a type depends on
// run-time values, the program ends before the operation with this type, and `rest` holds the remaining operations.
// Every pass keeps the order and number of feeds and variables. Every operation with an effect that is in a Program
// runs, in program order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "mpsgraph/compiler/options.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// The remainder of a graph, starting at the first operation whose shape, or an attribute given as a tensor, depends on
// values that are only known at run time. The preceding program computes these values and everything else that the rest
// needs. The rest is then specialized like any graph. Operations run in creation order, so dividing the graph at that
// operation changes no result.
struct Rest {
  struct Source {
    bool is_feed;  // true for a feed of the preceding program, false for one of its targets
    size_t index;
    bool is_given = is_feed;  // whether the caller passes the value, rather than a preceding program computing it
  };
  std::unique_ptr<Graph> graph;
  std::vector<Tensor*> feeds;  // placeholders of `graph`
  std::vector<Source> sources;  // the source of each feed
  // The feeds whose values determine shapes or branches of the rest. The rest is specialized when these values are
  // available.
  std::vector<size_t> deciding;
  std::vector<size_t> early;  // indices, among the caller's targets, of the targets that the preceding program computes
  std::vector<Tensor*> targets;  // the remaining targets
  std::vector<size_t> late;  // indices, among the caller's targets, of the remaining targets
  std::vector<Operation*> target_operations;
  std::vector<Tensor*> variables;  // variables of `graph`
  std::vector<Tensor*> source_variables;  // the user's variable for each entry of `variables`
};

// Passes that a backend can choose to run, in pipeline order.
enum class OptionalPass : uint8_t {
  prune,
  channels_last,
  quantize,
  normalize,
  fold,
  simplify,
  absorb,
  fuse,
  fuse_elementwise,
  schedule
};

// A backend's requirements for compiled programs.
struct Target {
  std::vector<OptionalPass> passes;  // the optional passes to run
  // whether the backend has a kernel for this composite; all other composites are expanded
  bool (*keeps)(const Operation&) = nullptr;
  // whether the backend's matmuls and convolutions support bias, residual, and activation
  bool fuses_epilogues = false;
};

class Recipes;

struct Program {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor*> feeds;  // placeholders of `graph`, in the order of the caller's feeds
  std::vector<Tensor*> targets;  // tensors of `graph`, in the order of the caller's targets
  std::vector<Operation*> target_operations;
  std::vector<Tensor*> variables;  // variable tensors of `graph`
  std::vector<Tensor*> source_variables;  // the user's variable for each entry of `variables`
  // If there is a rest, the targets are the caller's targets that this program computes, followed by the values that
  // the rest needs.
  std::shared_ptr<const Rest> rest;
  Callables callables;  // the callables that the program calls
  std::vector<bool> computed;  // whether each feed was computed by a preceding program; empty if no feed was
  Target target;  // the target for which run_passes() prepares the program
  bool optimized = false;  // whether all passes have run
  std::shared_ptr<const Recipes> recipes;  // how the passes computed constants; null before they run
};

// The types of the caller's targets, in the caller's order. The types of targets computed by the rest are only known as
// far as the graph determines them.
std::vector<TensorType> target_types(const Program& program);

// Specializes a graph for `feeds`, which pairs each placeholder with the type that is fed. A variable that is a target
// is read after everything else. Throws ShapeError if a fed type does not match its placeholder, GraphError for a
// placeholder that is needed but not fed, and UnsupportedError for a shape that depends on values computed within a
// block of control flow.
MPSGRAPH_API Program specialize(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                                const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

// Specializes the rest of a program, given the types of its feeds and the values of the feeds in Rest::deciding, both
// in order.
Program specialize(const Rest& rest, const std::vector<TensorType>& feeds, const std::vector<ConstantPtr>& deciding);

// Makes the whole program a rest (struct Rest) whose deciding feeds are its flags. A flag is a fed scalar bool on which
// the predicate of an `if` depends, if that predicate depends on no values except flags and constants. The rest is then
// specialized for the values of the flags, so these `if`s are replaced by the branches taken. Returns null and leaves
// the program unchanged if there are no flags or too many of them.
std::shared_ptr<const Rest> rest_of_flags(Program& program);

struct Pass {
  std::string_view name;
  std::string_view summary;  // one-line description
  void (*run)(Program&);
  std::optional<OptionalPass> optional;  // nullopt if every backend relies on the pass, so that it cannot be disabled
};
const std::vector<Pass>& all_passes();  // all passes, in the order in which they run
const Pass& pass_named(std::string_view name);  // throws a GraphError that lists the names if the name is unknown

// Runs the passes that every backend needs, and the target's optional passes that the options do not disable.
void run_passes(Program& program, const Target& target, const Options& options);

}  // namespace mpsgraph::compiler
