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
#include <unordered_map>

#include "compiler/dependencies.h"
#include "compiler/passes.h"
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
    for (int i = 0; i < n; i++) {
      joins_.push_back(elementwise(i) || can_end_region(*block_.operations[i]));
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
  int region_of(const Operation* operation) const {
    const int i = dependencies_.position(operation);
    return joins_[i] ? find(i) : -1;
  }

  // A valid order in which each region is contiguous.
  std::vector<int> schedule() const {
    const int n = static_cast<int>(block_.operations.size());
    std::vector<int> node(n), last(n, -1), waiting(n, 0);
    for (int i = 0; i < n; i++) node[i] = joins_[i] ? find(i) : i;
    std::vector<std::vector<int>> members(n), users(n);
    for (int i = 0; i < n; i++) {
      members[node[i]].push_back(i);
      last[node[i]] = i;
      for (int d : dependencies_.before(i))
        if (node[d] != node[i]) users[node[d]].push_back(node[i]), waiting[node[i]]++;
    }
    // Regions are ordered by the original position of their last member, to stay close to the user's order.
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (int i = 0; i < n; i++)
      if (node[i] == i && waiting[i] == 0) ready.push({last[i], i});
    std::vector<int> order;
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
    for (int i = n; i-- > 0;) sink(i);
    region_.assign(n, {});
    parent_.clear();
    for (int i = 0; i < n; i++) place(i);
  }

  bool elementwise(int i) const {
    return block_.operations[i]->definition->elementwise && !is_alias(*block_.operations[i]);
  }
  const Dims& space(int i) const {
    const Operation& operation = *block_.operations[i];
    return elementwise(i) ? operation.output()->type.shape.dims() : operation.input(0)->type.shape.dims();
  }

  // Element-wise operations with the shape of operation i that compute its operands. Operation i may join their
  // regions.
  std::vector<int> producers(int i) const {
    std::vector<int> found;
    if (!joins_[i]) return found;
    for (const Tensor* in : block_.operations[i]->inputs) {
      const int producer = dependencies_.position(in->operation);
      if (producer >= 0 && elementwise(producer) && space(producer) == space(i)) found.push_back(producer);
    }
    return found;
  }

  int least_level(int i) const {
    const std::vector<int> joinable = producers(i);
    int level = 0;
    for (int d : dependencies_.before(i)) {
      const bool may_join = std::find(joinable.begin(), joinable.end(), d) != joinable.end();
      level = std::max(level, level_[d] + (joins_[d] && !may_join ? 1 : 0));
    }
    return level;
  }

  // Whether operation i, and every operation that would be merged with it, can move to a later level because nothing
  // uses their results before that level.
  bool moves_freely(int i, int level) const {
    std::vector<int> moving{i};
    for (size_t next = 0; next < moving.size(); next++)
      for (int d : producers(moving[next])) {
        if (wanted_[d] >= level || std::find(moving.begin(), moving.end(), d) != moving.end()) continue;
        if (moving.size() == max_operations || stays_[d]) return false;
        moving.push_back(d);
      }
    return std::all_of(moving.begin() + 1, moving.end(), [&](int d) {
      return std::all_of(users_[d].begin(), users_[d].end(), [&](int user) {
        return wanted_[user] >= level || std::find(moving.begin(), moving.end(), user) != moving.end();
      });
    });
  }

  // Moves operations that start a region to the level of their users, so that they are merged with these users. For
  // example, `momentum * beta` could run immediately, but belongs to the update that needs the gradient.
  void sink(int i) {
    // an assign without users only ends the lifetime of a value, so it can run last
    if (block_.operations[i]->is("assign") && users_[i].empty()) {
      wanted_[i] = *std::max_element(level_.begin(), level_.end());
      return;
    }
    if (!joins_[i] || users_[i].empty() || stays_[i]) return;
    int level = wanted_[users_[i].front()];
    for (int user : users_[i]) {
      const std::vector<int> joinable = producers(user);
      const bool may_join = elementwise(i) && std::find(joinable.begin(), joinable.end(), i) != joinable.end();
      level = std::min(level, wanted_[user] - (may_join ? 0 : 1));
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
      const std::vector<int>& users = users_[source];  // sorted by position
      auto user = std::lower_bound(users.begin(), users.end(), i);
      for (int seen = 0; user != users.begin() && seen < most_siblings; seen++) {
        const int other = *--user;
        const auto& inputs = block_.operations[other]->inputs;
        if (joins_[other] && space(other) == space(i) && std::find(inputs.begin(), inputs.end(), in) != inputs.end())
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
  std::vector<std::vector<int>> users_;
  std::vector<int> level_, wanted_, parent_;
  std::vector<bool> joins_, stays_;
  std::vector<Region> region_;
};

using RegionOperations = std::vector<const Operation*>;

// Finds the regions of a block and of all blocks within it, and sorts the operations so that regions are contiguous.
void plan_block(Block& block, std::unordered_map<const Operation*, std::shared_ptr<RegionOperations>>& regions) {
  for (auto& operation : block.operations)
    for (auto& inner : operation->blocks) plan_block(*inner, regions);
  const BlockPlan plan(block);
  std::unordered_map<int, std::shared_ptr<RegionOperations>> by_id;
  const std::vector<int> order = plan.schedule();
  std::vector<int> region(block.operations.size());
  for (size_t i = 0; i < block.operations.size(); i++) region[i] = plan.region_of(block.operations[i].get());
  std::vector<std::unique_ptr<Operation>> sorted;
  for (int i : order) {
    if (region[i] >= 0) {
      auto& operations = by_id[region[i]];
      if (!operations) operations = std::make_shared<RegionOperations>();
      operations->push_back(block.operations[i].get());
    }
    sorted.push_back(std::move(block.operations[i]));
  }
  block.operations = std::move(sorted);
  for (auto& [id, operations] : by_id) {
    const bool alone = operations->size() == 1;
    if (alone) continue;
    for (const Operation* operation : *operations) regions[operation] = operations;
  }
}

// Returns a scalar constant for a constant whose elements are all equal; a region takes it as a scalar operand.
Tensor* as_scalar(Rewriter& rewriter, Tensor* value, const Operation& user) {
  if (!value->operation->is("constant") || value->type.shape.rank() == 0) return value;
  const ConstantPtr& data = value->operation->attributes.data("value");
  if (!data->is_splat() && data->elements() != 1) return value;
  const bool shape_from_elsewhere = std::any_of(user.inputs.begin(), user.inputs.end(), [&](const Tensor* in) {
    return !in->operation->is("constant") && in->type.shape == user.output()->type.shape;
  });
  if (!shape_from_elsewhere) return value;
  return rewriter.graph().add("constant", {}, {{"value", ConstantData::splat(data->dtype(), {}, data->bytes())}});
}

struct ElementwiseFuser {
  std::unordered_map<const Operation*, std::shared_ptr<RegionOperations>> regions;
  std::unordered_map<const Tensor*, int> uses;
  // Results of the fused kernels created so far, keyed by the original operation.
  std::unordered_map<const Operation*, std::vector<Tensor*>> made;

  void emit(Rewriter& rewriter, const RegionOperations& operations) {
    Graph& graph = rewriter.graph();
    std::unordered_map<const Tensor*, int> inside;  // number of uses within the region
    std::unordered_map<const Operation*, bool> member;
    for (const Operation* operation : operations) {
      member[operation] = true;
      for (const Tensor* in : operation->inputs) inside[in]++;
    }
    // Creates the operands before the kernel's block, because a block under construction receives all new operations.
    std::vector<Tensor*> operands;
    std::unordered_map<const Tensor*, size_t> operand_of;
    // For each operation, the index of each operand among the kernel's operands; -1 for operands that are computed
    // within the kernel.
    std::unordered_map<const Operation*, std::vector<int>> operand_places;
    for (const Operation* operation : operations)
      for (const Tensor* in : operation->inputs) {
        int place = -1;
        if (!member.count(in->operation)) {
          Tensor* value = rewriter.now(in);
          // The key is the tensor of the source program, because a constant whose elements are all equal may have users
          // of several shapes.
          const auto [found, fresh] = operand_of.try_emplace(in, operands.size());
          if (fresh) operands.push_back(as_scalar(rewriter, value, *operation));
          place = static_cast<int>(found->second);
        }
        operand_places[operation].push_back(place);
      }
    std::vector<TensorType> types;
    for (const Tensor* operand : operands) types.push_back(operand->type);
    Block* body = graph.begin_block(types);
    std::unordered_map<const Tensor*, Tensor*> values;
    std::vector<Tensor*> results;
    std::vector<const Tensor*> result_of;
    for (const Operation* operation : operations) {
      std::vector<Tensor*> inputs;
      for (size_t i = 0; i < operation->inputs.size(); i++) {
        const int place = operand_places[operation][i];
        inputs.push_back(place < 0 ? values.at(operation->inputs[i]) : body->arguments[place]);
      }
      Operation* copy = graph.create_unchecked(*body, *operation->definition, std::move(inputs), operation->attributes,
                                               {}, {operation->output()->type});
      copy->location = operation->location;
      values[operation->output()] = copy->output();
      if (uses[operation->output()] > inside[operation->output()]) {
        results.push_back(copy->output());
        result_of.push_back(operation->output());
      }
      made[operation] = {copy->output()};
    }
    Operation* fused = graph.create("fused_elementwise", operands, {}, operations.back()->name, [&] {
      std::vector<std::unique_ptr<Block>> blocks;
      blocks.push_back(graph.finish_block(body, results));
      return blocks;
    }());
    for (size_t i = 0; i < results.size(); i++) made[result_of[i]->operation] = {fused->output(i)};
  }
};

bool joins_regions(const Operation& operation) {
  return (operation.definition->elementwise && !is_alias(operation)) || can_end_region(operation);
}

// Duplicates casts from half precision to float32 that have several users, so that each region gets its own cast.
void split_casts(Program& program) {
  const Users users(program);
  const auto is_shared = [&](const Tensor* value) {
    const Operation& cast = *value->operation;
    return cast.is("cast") && is_half(cast.input(0)->dtype()) && value->dtype() == DType::float32 &&
           users.of(value).size() > 1;
  };
  const auto concerned = [&](const Operation& operation) {
    return joins_regions(operation) && std::any_of(operation.inputs.begin(), operation.inputs.end(), is_shared);
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

void count_uses(const Block& block, std::unordered_map<const Tensor*, int>& uses) {
  for (const auto& operation : block.operations) {
    for (const Tensor* in : operation->inputs) uses[in]++;
    for (const auto& inner : operation->blocks) count_uses(*inner, uses);
  }
  for (const Tensor* result : block.results) uses[result]++;
}

}  // namespace

void fuse_elementwise(Program& program) {
  split_casts(program);
  ElementwiseFuser fuser;
  count_uses(program.graph->root(), fuser.uses);
  for (const Tensor* target : program.targets) fuser.uses[target]++;
  plan_block(program.graph->root(), fuser.regions);
  rewrite(program, [&](Rewriter& rewriter, const Operation& operation) -> Rewriter::Replacement {
    const auto found = fuser.regions.find(&operation);
    if (found == fuser.regions.end()) return std::nullopt;
    if (!fuser.made.count(&operation)) fuser.emit(rewriter, *found->second);
    return fuser.made.at(&operation);
  });
}

}  // namespace mpsgraph::compiler
