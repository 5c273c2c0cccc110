// Scans blocks for marked operations, and copies operations including their blocks.
#include "core/recomputation.h"

#include <algorithm>

#include "core/definition.h"

namespace mpsgraph {
namespace {

bool is_mark(const Operation& operation) { return operation.is({"recomputation_begin", "recomputation_end"}); }

Tensor* replaced(Tensor* tensor, const Replacements& now) {
  const auto found = now.find(tensor);
  return found == now.end() ? tensor : found->second;
}

std::vector<RecomputedRange> outermost_ranges(const Block& block, int64_t from) {
  std::vector<RecomputedRange> ranges;
  std::vector<int64_t> open;
  for (const auto& operation : block.operations) {
    if (operation->id < from || !is_mark(*operation)) continue;
    if (operation->is("recomputation_begin")) {
      open.push_back(operation->id);
    } else if (!open.empty()) {
      while (!ranges.empty() && ranges.back().first > open.back()) ranges.pop_back();  // those nested in this range
      ranges.push_back({&block, open.back(), operation->id});
      open.pop_back();
    }
  }
  return ranges;
}

}  // namespace

const RecomputedRange* RecomputedRanges::containing(const Operation& operation) {
  const auto [found, is_new] = found_.try_emplace(operation.parent);
  std::vector<RecomputedRange>& ranges = found->second;
  if (is_new) ranges = outermost_ranges(*operation.parent, from_);
  const auto after = std::ranges::upper_bound(ranges, operation.id, {}, &RecomputedRange::first);
  if (after == ranges.begin()) return nullptr;
  const RecomputedRange& range = *std::prev(after);
  return operation.id < range.end ? &range : nullptr;
}

bool can_recompute(const Operation& operation) {
  if (operation.definition->takes_variables || operation.definition->root_only || operation.is({"argument", "call"}) ||
      is_effect(operation))
    return false;
  return std::ranges::all_of(operation.blocks, [](const auto& block) {
    return std::ranges::all_of(block->operations,
                               [](const auto& inner) { return inner->is("argument") || can_recompute(*inner); });
  });
}

std::vector<Operation*> with_nested_ranges(std::vector<Operation*> operations, const RecomputedRange& range,
                                           int64_t from) {
  for (const auto& operation : range.block->operations) {
    if (operation->id > range.first && operation->id >= from && operation->id < range.end && is_mark(*operation))
      operations.push_back(operation.get());
  }
  std::ranges::sort(operations, {}, &Operation::id);
  return operations;
}

void create_again(const Operation& operation, Replacements& now) {
  Graph& graph = operation.graph();
  std::vector<std::unique_ptr<Block>> blocks;
  for (const auto& block : operation.blocks) {
    std::vector<TensorType> types;
    for (const Tensor* argument : block->arguments) types.push_back(argument->type);
    Block* made = graph.begin_block(types);
    for (size_t i = 0; i < types.size(); ++i) now[block->arguments[i]] = made->arguments[i];
    for (const auto& inner : block->operations)
      if (!inner->is("argument")) create_again(*inner, now);
    std::vector<Tensor*> results;
    for (Tensor* result : block->results) results.push_back(replaced(result, now));
    blocks.push_back(graph.finish_block(made, std::move(results)));
  }
  std::vector<Tensor*> inputs;
  for (Tensor* input : operation.inputs) inputs.push_back(replaced(input, now));
  const Location before = graph.location();
  graph.set_location(operation.location);
  Operation* made =
      graph.create(operation.kind(), std::move(inputs), operation.attributes, operation.name, std::move(blocks));
  graph.set_location(before);
  for (size_t i = 0; i < made->outputs.size(); ++i) now[operation.output(i)] = made->output(i);
}

}  // namespace mpsgraph
