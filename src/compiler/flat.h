// A graph as flat lists: a structure that does not depend on sizes, and the numbers and constants that may.
//
// The numbers are all dimensions and integer attributes, and the elements of short integer constants, in the order of
// the operations. Two graphs with equal structures differ only in their numbers and constants, which have the same
// positions in both. resized() builds a graph with the structure of another graph and different numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// The most elements of an integer constant that are numbers. Longer constants are compared as a whole.
constexpr int64_t max_constant_numbers = 8;  // enough for most shapes

struct Flat {
  // The position in `numbers` and `constants` at which the entries of an operation begin, indexed by operation id. The
  // entries of an operation end where those of the first operation in its blocks, or of the next operation, begin.
  struct Start {
    size_t number = 0, constant = 0;
  };

  explicit Flat(const Graph& graph);
  // The structure includes the feeds, targets, and variables. Operations have their order before the pass schedule. In
  // place of a constant that passes computed, the lists hold the entries of the operations that computed it.
  explicit Flat(const Program& program);
  explicit Flat(const std::vector<Dims>& shapes);  // only shapes, as a frontend states them

  std::vector<uint64_t> structure;
  std::vector<int64_t> numbers;
  std::vector<ConstantPtr> constants;
  std::vector<Start> starts;
  // Ranges of `numbers` that are the dimensions of one tensor.
  std::vector<std::pair<size_t, size_t>> shapes;
};

// The operations of a block in the order in which they were created, which is their order before the pass schedule.
std::vector<const Operation*> in_creation_order(const Block& block);

// Whether constants have the same dtype and bits, apart from their dimensions.
bool same_elements(const ConstantData& a, const ConstantData& b);

// Copies a program, with its operations in creation order. The numbers and constants of operations that are marked in
// `varies`, which is indexed by operation id, are replaced by those in the given lists, which have the order of Flat.
// Returns nullopt if a constant does not have as many elements as its new dimensions require.
std::optional<Program> resized(const Program& program, const Flat& flat, const std::vector<bool>& varies,
                               const std::vector<int64_t>& numbers, const std::vector<ConstantPtr>& constants);

}  // namespace mpsgraph::compiler
