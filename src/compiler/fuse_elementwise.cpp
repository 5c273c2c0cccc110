// Compiler pass fuse_elementwise: merges each maximal connected region of element-wise operations of one shape into a
// single fused kernel.
//
//   %a = multiplication(%x, %c)          %r = fused_elementwise(%x, %c) {
//   %b = erf(%a)                   ->      ... the same operations over arguments ...
//   %s = reduction_sum(%b)                 yield %s
//
// A region may end in reductions of its values. Operations that are only connected by reading the same tensor also join
// one region if the tensor has the region's shape and the operations can run at the same time. Fusing must not create
// cycles through operations between regions. Each operation therefore gets a level, which increases along every edge
// that leaves an element-wise operation without merging its consumer into the same region. Connected operations of the
// same level can be merged, because a path that leaves the region never returns to that level.
//
// A cast from half precision to float32 is duplicated into each region that uses it: each region then reads two bytes
// per element, instead of four bytes that another region would have to write first.
#include <algorithm>
#include <queue>
#include <span>
#include <unordered_map>

#include "compiler/dependencies.h"
#include "compiler/passes.h"
#include "compiler/recipes.h"
#include "compiler/reduction_shape.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

constexpr int max_operations = 96;  // limits the register use and the size of a kernel
constexpr int max_inputs = 48;
constexpr int most_siblings = 16;  // maximum number of candidates for merging that read the same tensor

// The levels and regions of one block's operations: a region is a set of operations that become one fused kernel, and
// only operations of the same level can be merged into a region. Operations are identified by their positions in the
// block.
class BlockPlan {
 public:
  explicit BlockPlan(Block& block) : block_(block), dependencies_(block), users_(dependencies_.users()) {
    const int n = static_cast<int>(block.operations.size());
    level_.assign(n, 0);
    producer_ends_.reserve(n + 1);
    for (int i = 0; i < n; i++) {
      elementwise_.push_back(is_elementwise(*block_.operations[i]));
      joins_.push_back(elementwise_[i] || can_end_region(*block_.operations[i]));
      find_producers(i);
      level_[i] = least_level(i);
    }
    stays_.assign(n, false);
    place_all();
    // When a region reaches its maximum size, the users of its results move to later levels. Operations that start a
    // region should move to the levels of their users, so all levels are assigned a second time.
    for (int i = 0; i < n; i++) stays_[i] = joins_[i] && region_[find(i)].refused;
    place_all();
  }

  // The region of an operation, identified by the position of its representative; -1 if the operation has no region.
  int region_of(int i) const { return joins_[i] ? find(i) : -1; }

  // A valid order in which each region is contiguous.
  std::vector<int> schedule() const {
    const int n = static_cast<int>(block_.operations.size());
    std::vector<int> node(n), last(n, -1), waiting(n, 0);
    for (int i = 0; i < n; i++) node[i] = joins_[i] ? find(i) : i;
    for (int i = 0; i < n; i++) {
      last[node[i]] = i;
      for (int d : dependencies_.before(i)) waiting[node[i]] += node[d] != node[i];
    }
    const Lists<int> members(n, [&](const auto& add) {
      for (int i = 0; i < n; i++) add(node[i], i);
    });
    const Lists<int> users(n, [&](const auto& add) {
      for (int i = 0; i < n; i++)
        for (int d : dependencies_.before(i))
          if (node[d] != node[i]) add(node[d], node[i]);
    });
    // Regions are ordered by the original position of their last member, to stay close to the user's order.
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (int i = 0; i < n; i++)
      if (node[i] == i && waiting[i] == 0) ready.push({last[i], i});
    std::vector<int> order;
    order.reserve(n);
    while (!ready.empty()) {
      const int next = ready.top().second;
      ready.pop();
      order.insert(order.end(), members[next].begin(), members[next].end());
      for (int user : users[next])
        if (--waiting[user] == 0) ready.push({last[user], user});
    }
    if (static_cast<int>(order.size()) != n)
      throw GraphError("fuse_elementwise created a cycle; please report this together with the program");
    return order;
  }

 private:
  struct Region {
    int operations = 0;
    int inputs = 0;  // an upper bound for the number of distinct inputs
    std::vector<bool> reduced;  // reduced axes of the region's reductions; empty if there are none
    bool refused = false;  // whether the region was too large for another operation
  };

  void place_all() {
    const int n = static_cast<int>(level_.size());
    wanted_ = level_;
    last_level_ = n == 0 ? 0 : *std::ranges::max_element(level_);
    for (int i = n; i-- > 0;) sink(i);
    region_.assign(n, {});
    parent_.clear();
    for (int i = 0; i < n; i++) place(i);
  }

  static bool is_elementwise(const Operation& operation) {
    return operation.definition->elementwise && !is_alias(operation);
  }
  const Dims& space(int i) const {
    const Operation& operation = *block_.operations[i];
    return elementwise_[i] ? operation.output()->type.shape.dims() : operation.input(0)->type.shape.dims();
  }

  // Element-wise operations with the shape of operation i that compute its operands. Operation i may join their
  // regions.
  std::span<const int> producers(int i) const {
    const size_t begin = producer_ends_[i];
    return {producers_.data() + begin, producer_ends_[i + 1] - begin};
  }
  bool is_producer(int producer, int of) const {
    const auto all = producers(of);
    return std::ranges::find(all, producer) != all.end();
  }

  void find_producers(int i) {
    if (joins_[i])
      for (const Tensor* in : block_.operations[i]->inputs) {
        const int producer = dependencies_.position(in->operation);
        if (producer >= 0 && elementwise_[producer] && space(producer) == space(i)) producers_.push_back(producer);
      }
    producer_ends_.push_back(producers_.size());
  }

  int least_level(int i) const {
    int level = 0;
    for (int d : dependencies_.before(i))
      level = std::max(level, level_[d] + (joins_[d] && !is_producer(d, i) ? 1 : 0));
    return level;
  }

  // Whether operation i, and every operation that would be merged with it, can move to a later level because nothing
  // uses their results before that level.
  bool moves_freely(int i, int level) const {
    std::vector<int> moving{i};
    for (size_t next = 0; next < moving.size(); next++)
      for (int d : producers(moving[next])) {
        if (wanted_[d] >= level || std::ranges::find(moving, d) != moving.end()) continue;
        if (moving.size() == max_operations || stays_[d]) return false;
        moving.push_back(d);
      }
    return std::all_of(moving.begin() + 1, moving.end(), [&](int d) {
      return std::ranges::all_of(users_[d], [&](int user) {
        return wanted_[user] >= level || std::ranges::find(moving, user) != moving.end();
      });
    });
  }

  // Moves operations that start a region to the level of their users, so that they are merged with these users. For
  // example, `momentum * beta` could run immediately, but belongs to the update that needs the gradient.
  void sink(int i) {
    // an assign without users only ends the lifetime of a value, so it can run last
    if (block_.operations[i]->is("assign") && users_[i].empty()) {
      wanted_[i] = last_level_;
      return;
    }
    if (!joins_[i] || users_[i].empty() || stays_[i]) return;
    int level = wanted_[users_[i].front()];
    for (int user : users_[i]) {
      level = std::min(level, wanted_[user] - (is_producer(i, user) ? 0 : 1));
    }
    if (level > wanted_[i] && moves_freely(i, level)) wanted_[i] = level;
  }

  void place(int i) {
    const Operation& operation = *block_.operations[i];
    region_[i] = {1, static_cast<int>(operation.inputs.size()),
                  can_end_region(operation) ? reduced_axes(operation) : std::vector<bool>{}};
    parent_.push_back(i);
    const int level = level_[i] = std::max(wanted_[i], least_level(i));
    for (int d : producers(i)) {
      if (level_[d] != level) continue;
      if (!merge(i, d)) {
        level_[i] = level + 1;  // The region is full, so operation i starts a new region on the next level.
        region_[find(d)].refused = true;
        separate(i, operation);
        return;
      }
    }
    for (int other : siblings(i))
      if (level_[other] == level) merge(i, other);
  }

  // Operations before operation i that have the same shape and read a tensor of this shape that operation i also reads.
  // Only the nearest of these operations are considered, because they have already been merged with the more distant
  // ones.
  std::vector<int> siblings(int i) const {
    std::vector<int> found;
    if (!joins_[i]) return found;
    for (const Tensor* in : block_.operations[i]->inputs) {
      const int source = dependencies_.position(in->operation);
      if (source < 0 || in->type.shape.dims() != space(i)) continue;
      const auto users = users_[source];  // sorted by position
      auto user = std::lower_bound(users.begin(), users.end(), i);
      for (int seen = 0; user != users.begin() && seen < most_siblings; seen++) {
        const int other = *--user;
        const auto& inputs = block_.operations[other]->inputs;
        if (joins_[other] && space(other) == space(i) && std::ranges::find(inputs, in) != inputs.end())
          found.push_back(other);
      }
    }
    return found;
  }

  // Undoes the merges of the operation whose level was just assigned. It is the newest member of its region, so no
  // other member has to be updated.
  void separate(int i, const Operation& operation) {
    const int root = find(i);
    if (root == i && region_[i].operations == 1) return;
    region_[root].operations--;
    parent_[i] = i;
    region_[i] = {1, static_cast<int>(operation.inputs.size()), {}};
    if (can_end_region(operation)) region_[i].reduced = reduced_axes(operation);
  }

  bool merge(int a, int b) {
    a = find(a), b = find(b);
    if (a == b) return true;
    Region &x = region_[a], &y = region_[b];
    if (x.operations + y.operations > max_operations || x.inputs + y.inputs > max_inputs) return false;
    if (!x.reduced.empty() && !y.reduced.empty() && x.reduced != y.reduced) return false;
    // The older region keeps its representative, so that the newest operation can be removed from the region later.
    const int keep = std::min(a, b), gone = std::max(a, b);
    region_[keep].operations += region_[gone].operations;
    region_[keep].inputs += region_[gone].inputs;
    if (region_[keep].reduced.empty()) region_[keep].reduced = region_[gone].reduced;
    region_[keep].refused |= region_[gone].refused;
    parent_[gone] = keep;
    return true;
  }
  int find(int i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }

  Block& block_;
  const Dependencies dependencies_;
  const Lists<int> users_;
  std::vector<int> level_, wanted_, parent_;
  int last_level_ = 0;  // the largest level before place_all() moves operations
  std::vector<bool> elementwise_, joins_, stays_;
  std::vector<int> producers_;  // the lists of all operations, one after the other
  std::vector<size_t> producer_ends_{0};  // the end of each operation's list, after a 0
  std::vector<Region> region_;
};

using RegionOperations = std::span<const std::unique_ptr<Operation>>;

// Finds the regions of a block and of all blocks within it, and sorts the operations so that regions are contiguous.
// Sets `regions`, which is indexed by operation id, for the first operation of each region of several operations.
void plan_block(Block& block, std::vector<RegionOperations>& regions) {
  for (auto& operation : block.operations)
    for (auto& inner : operation->blocks) plan_block(*inner, regions);
  const BlockPlan plan(block);
  const std::vector<int> order = plan.schedule();
  std::vector<std::unique_ptr<Operation>> sorted;
  std::vector<int> region;
  for (int i : order) {
    region.push_back(plan.region_of(i));
    sorted.push_back(std::move(block.operations[i]));
  }
  block.operations = std::move(sorted);
  for (size_t begin = 0, end; begin < region.size(); begin = end) {
    end = begin + 1;
    if (region[begin] < 0) continue;
    while (end < region.size() && region[end] == region[begin]) end++;
    if (end - begin > 1)
      regions[block.operations[begin]->id] = RegionOperations(block.operations).subspan(begin, end - begin);
  }
}

// Returns a scalar constant for a constant whose elements are all equal; a region takes it as a scalar operand.
Tensor* as_scalar(Rewriter& rewriter, Tensor* value, const Operation& user) {
  if (!value->operation->is("constant") || value->type.shape.rank() == 0) return value;
  const ConstantPtr& data = value->operation->attributes.data("value");
  if (!data->is_splat() && data->elements() != 1) return value;
  const bool shape_from_elsewhere = std::ranges::any_of(user.inputs, [&](const Tensor* in) {
    return !in->operation->is("constant") && in->type.shape == user.output()->type.shape;
  });
  if (!shape_from_elsewhere) return value;
  const ConstantPtr scalar = ConstantData::splat(data->dtype(), {}, data->bytes());
  Recipes::note_element(scalar, data);
  return rewriter.graph().add("constant", {}, {{"value", scalar}});
}

class ElementwiseFuser {
 public:
  explicit ElementwiseFuser(Program& program)
      : uses_(*program.graph),
        operand_of_(*program.graph),
        values_(*program.graph),
        regions_(program.graph->operation_count()) {
    count_uses(program.graph->root());
    for (const Tensor* target : program.targets) uses_[target]++;
    plan_block(program.graph->root(), regions_);
  }

  Rewriter::Replacement visit(Rewriter& rewriter, const Operation& operation) {
    const RegionOperations region = regions_[operation.id];
    if (region.empty()) return std::nullopt;
    return std::vector<Tensor*>{emit(rewriter, region)};
  }

 private:
  // Creates the fused kernel of a region, and returns the replacement of the first operation's result.
  Tensor* emit(Rewriter& rewriter, RegionOperations operations) {
    Graph& graph = rewriter.graph();
    // Creates the operands before the kernel's block, because a block under construction receives all new operations.
    // The key is the tensor of the source program, because a constant whose elements are all equal may have users of
    // several shapes.
    std::vector<Tensor*> operands;
    std::vector<const Tensor*> outside;
    for (const auto& operation : operations) {
      for (const Tensor* in : operation->inputs) {
        uses_[in]--;  // leaves the uses outside the region
        if (operand_of_[in] != 0) continue;
        outside.push_back(in);
        operands.push_back(as_scalar(rewriter, rewriter.now(in), *operation));
        operand_of_[in] = static_cast<int>(operands.size());
      }
      operand_of_[operation->output()] = -1;
    }
    std::vector<TensorType> types;
    for (const Tensor* operand : operands) types.push_back(operand->type);
    Block* body = graph.begin_block(types);
    std::vector<Tensor*> results;
    std::vector<const Tensor*> result_of;
    for (const auto& operation : operations) {
      std::vector<Tensor*> inputs;
      for (const Tensor* in : operation->inputs) {
        const int operand = operand_of_[in];
        inputs.push_back(operand > 0 ? body->arguments[operand - 1] : values_[in]);
      }
      Operation* copy = graph.create_unchecked(*body, *operation->definition, std::move(inputs), operation->attributes,
                                               {}, {operation->output()->type});
      copy->location = operation->location;
      values_[operation->output()] = copy->output();
      if (uses_[operation->output()] > 0) {
        results.push_back(copy->output());
        result_of.push_back(operation->output());
      }
    }
    Operation* fused = graph.create("fused_elementwise", operands, {}, operations.back()->name, [&] {
      std::vector<std::unique_ptr<Block>> blocks;
      blocks.push_back(graph.finish_block(body, results));
      return blocks;
    }());
    for (const Tensor* in : outside) operand_of_[in] = 0;
    for (size_t i = 0; i < results.size(); i++) values_[result_of[i]] = fused->output(i);
    // The rewriter skips operations that have a replacement.
    for (const auto& operation : operations) {
      operand_of_[operation->output()] = 0;
      if (operation != operations.front()) rewriter.stand_for(*operation->output(), values_[operation->output()]);
    }
    return values_[operations.front()->output()];
  }

  void count_uses(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const Tensor* in : operation->inputs) uses_[in]++;
      for (const auto& inner : operation->blocks) count_uses(*inner);
    }
    for (const Tensor* result : block.results) uses_[result]++;
  }

  TensorTable<int> uses_;  // the number of uses of each value, except those in regions that are already fused
  // For the kernel being created: the index of each operand, plus 1, or -1 for values that it computes; otherwise 0.
  TensorTable<int> operand_of_;
  TensorTable<Tensor*> values_;  // the values that kernels compute, in the kernel or as its results
  std::vector<RegionOperations> regions_;  // see plan_block()
};

bool joins_regions(const Operation& operation) {
  return (operation.definition->elementwise && !is_alias(operation)) || can_end_region(operation);
}

// Duplicates casts from half precision to float32 that have several users, so that each region gets its own cast.
void split_casts(Program& program) {
  const auto widens = [](const Operation& cast) {
    return cast.is("cast") && is_half(cast.input(0)->dtype()) && cast.output()->dtype() == DType::float32;
  };
  if (!any_operation(program, widens)) return;
  const Users users(program);
  const auto is_shared = [&](const Tensor* value) { return widens(*value->operation) && users.of(value).size() > 1; };
  const auto concerned = [&](const Operation& operation) {
    return joins_regions(operation) && std::ranges::any_of(operation.inputs, is_shared);
  };
  if (!any_operation(program, concerned)) return;
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (!concerned(operation)) return {};
    std::vector<Tensor*> inputs;
    std::unordered_map<const Tensor*, Tensor*> own;
    for (const Tensor* in : operation.inputs) {
      Tensor* value = r.now(in);
      if (is_shared(in)) {
        Tensor*& cast = own[in];
        if (!cast) cast = Builder(r.graph()).cast(r.now(in->operation->input(0)), DType::float32);
        value = cast;
      }
      inputs.push_back(value);
    }
    return std::vector<Tensor*>{r.append(operation, std::move(inputs), {operation.output()->type})->output()};
  });
}

}  // namespace

void fuse_elementwise(Program& program) {
  recompute_elementwise(program);
  split_casts(program);
  ElementwiseFuser fuser(program);
  rewrite(program, [&](Rewriter& rewriter, const Operation& operation) { return fuser.visit(rewriter, operation); });
}

}  // namespace mpsgraph::compiler
