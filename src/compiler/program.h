// Program: the part of a graph that one executable needs, with concrete types.
//
// Specialisation copies the operations that targets and target operations depend on into a graph of
// its own, with the feeds' types in place of the placeholders', infers all types again and folds
// what shapes depend on. Passes then rewrite that graph; a backend lowers it. No type in a
// Program has an unknown dimension; where one depends on values, the program ends and has a rest. Feeds and variables
// keep their order and number in every pass; every operation with an effect that is in a Program runs, in program
// order.
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

// What remains of a graph from the first operation on whose shape, or attribute that a tensor gives, depends on values
// that only a run knows. The program before it computes these values and all else that the rest needs; then the rest
// is specialised like any graph. Since operations run in creation order, cutting there changes no result.
struct Rest {
  struct Source {
    bool is_feed;  // of the program before, else one of its targets
    size_t index;
    bool is_given = is_feed;  // by the caller, not computed by any program before
  };
  std::unique_ptr<Graph> graph;
  std::vector<Tensor*> feeds;  // placeholders of `graph`
  std::vector<Source> sources;  // where each of them comes from
  std::vector<size_t> deciding;  // the feeds whose values must be known
  std::vector<size_t> early;  // the caller's numbers of the targets that the program before computes
  std::vector<Tensor*> targets;  // the others
  std::vector<size_t> late;  // and their numbers
  std::vector<Operation*> target_operations;
  std::vector<Tensor*> variables;  // of `graph`
  std::vector<Tensor*> source_variables;  // the user's variable for each of them
};

// The passes that some backends want and others do without, in the order of the pipeline.
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

// What a backend asks of the compiler.
struct Target {
  std::vector<OptionalPass> passes;  // those that make its programs better
  bool (*keeps)(const Operation&) = nullptr;  // does it run this composite itself? all others are expanded
  bool fuses_epilogues = false;  // do its products and convolutions take bias, residual and activation along?
};

struct Program {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor*> feeds;  // placeholders of `graph`, in the order of the caller's feeds
  std::vector<Tensor*> targets;  // in the caller's order
  std::vector<Operation*> target_operations;
  std::vector<Tensor*> variables;  // variable tensors of `graph`
  std::vector<Tensor*> source_variables;  // the user's variable for each of them
  // When there is one, the targets are the early ones among the caller's, then what the rest needs.
  std::shared_ptr<const Rest> rest;
  Callables callables;  // those that it calls
  std::vector<bool> computed;  // which of the feeds programs before it have computed; empty: none
  Target target;  // whom run_passes() prepares it for
};

// The types of the caller's targets, in the caller's order; of those that the rest computes only what is known by now.
std::vector<TensorType> target_types(const Program& program);

// `feeds` pairs each placeholder with the type that is fed. Throws ShapeError when a fed type does
// not match its placeholder, GraphError for a placeholder that is needed and not fed, and
// UnsupportedError for a shape that depends on values made within a block of control flow. A variable
// that is a target is read after everything else.
MPSGRAPH_API Program specialize(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                                const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

// The rest of a program, once its feeds' types and the values of the deciding ones (in their order) are known.
Program specialize(const Rest& rest, const std::vector<TensorType>& feeds, const std::vector<ConstantPtr>& deciding);

// All of a program as a rest that fed flags decide: bools of one element that its `if`s depend on and on nothing else.
// Null, and the program as it was, when there are none, or many.
std::shared_ptr<const Rest> rest_of_flags(Program& program);

struct Pass {
  std::string_view name;
  std::string_view summary;  // one line, for people
  void (*run)(Program&);
  std::optional<OptionalPass> optional;  // none: every backend counts on it, and nobody can disable it
};
const std::vector<Pass>& all_passes();  // the pipeline, in order
const Pass& pass_named(std::string_view name);  // GraphError that lists the names

// Those passes that every backend needs, and of the others those that the target wants and the options do not disable.
void run_passes(Program& program, const Target& target, const Options& options);

}  // namespace mpsgraph::compiler
