// Recomputed operations: finds the marked operations of a graph, and creates them again.
//
// Operations between `recomputation_begin` and `recomputation_end` in a block are marked. Pairs of these operations can
// be nested; an operation without its counterpart marks nothing.
#pragma once

#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph {

// The marked operations between one `recomputation_begin` and its counterpart: those with first < id < end.
struct RecomputedRange {
  const Block* block;
  int64_t first, end;
};

// The outermost ranges of blocks, which do not overlap.
class RecomputedRanges {
 public:
  explicit RecomputedRanges(int64_t from) : from_(from) {}  // ignores operations whose id is less than `from`
  const RecomputedRange* containing(const Operation& operation);  // null if the operation is not marked

 private:
  const int64_t from_;
  std::unordered_map<const Block*, std::vector<RecomputedRange>> found_;  // in ascending order
};

// Whether an operation can run twice: neither it nor an operation in its blocks has an effect or uses a variable.
bool can_recompute(const Operation& operation);

// Returns `operations` together with the ends of ranges nested in `range`, from the id `from` on, in ascending order.
std::vector<Operation*> with_nested_ranges(std::vector<Operation*> operations, const RecomputedRange& range,
                                           int64_t from);

using Replacements = std::unordered_map<const Tensor*, Tensor*>;

// Creates an operation again in the current block, with the operands in `now` replaced, and enters the new results in
// `now`.
void create_again(const Operation& operation, Replacements& now);

}  // namespace mpsgraph
