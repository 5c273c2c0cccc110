// The derivatives of if, for, and while.
//
//   if     an `if` with the same predicate; each block returns the gradients of all outside tensors that either branch
//          used
//   for    a `for` with the same number of iterations, in reverse order: it maps the gradients of the values after an
//          iteration to the gradients of the values before it, and accumulates the gradients of the outside tensors
//          that the body used
//   while  a `while` that counts down: its `before` computes the derivative of the original `before`, and its `after`
//          the derivative of the original `after`
//
// Intermediate values that the derivative of an iteration needs come from histories, which differentiation adds to the
// original loop.
#include <algorithm>
#include <memory>

#include "core/block_gradients.h"
#include "core/ops/control_flow.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Tensors = std::vector<Tensor*>;

// ---- if

// Saves tensors of a branch by making them additional results of the `if`. In the other branch, the additional results
// are `undefined`, and they are never read.
class BranchResults final : public Substitutes {
 public:
  BranchResults(Operation& operation, size_t branch)
      : Substitutes(*operation.blocks[branch]), operation_(operation), branch_(branch) {
    const Tensors& results = operation.blocks[branch]->results;
    for (size_t i = 0; i < results.size(); ++i) saved_.emplace(results[i], operation.output(i));
  }

 private:
  Tensor* save(Tensor* inner) override {
    Block& other = *operation_.blocks[1 - branch_];
    Operation* nothing =
        graph().create_unchecked(other, definition_of("undefined"), {}, {{"type", inner->type}}, {}, {inner->type});
    operation_.blocks[branch_]->results.push_back(inner);
    other.results.push_back(nothing->output());
    return graph().append_output(&operation_, inner->type);
  }

  Operation& operation_;
  const size_t branch_;
};

// Builds one block of the backward `if`: the gradients of all captured tensors if this branch was taken.
std::unique_ptr<Block> d_branch(GradientContext& g, size_t branch) {
  Graph& graph = g.graph();
  const Tensors& results = g.operation.blocks[branch]->results;
  Seeds seeds;
  // The loop over results ends at g.incoming_count() and not at results.size(), because saving values may have appended
  // results, which have no incoming gradient.
  for (size_t i = 0; i < g.incoming_count(); ++i) {
    if (g.incoming(i)) seeds.emplace_back(results[i], g.incoming(i));
  }
  Block* backward = graph.begin_block();
  try {
    const BranchResults saved(g.operation, branch);
    Tensors gradients = block_gradients(*g.operation.blocks[branch], seeds, g.captures);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) gradients[i] = Builder(graph).zeros_like(g.captures[i]);
    }
    return graph.finish_block(backward, gradients);
  } catch (...) {
    graph.abandon_block(backward);
    throw;
  }
}

// ---- loops

Tensor* add_argument(Block& block, const TensorType& type) {
  Operation* argument =
      block.graph->create_unchecked(block, definition_of("argument"), {}, {{"type", type}}, {}, {type});
  return block.arguments.emplace_back(argument->output());
}

// The backward loop under construction. In addition to the block arguments requested at the start, the loop carries
// values that are discovered while it is built. Each such value has an argument in every block and passes through
// unchanged unless replaced.
class BackwardLoop {
 public:
  explicit BackwardLoop(Graph& graph) : graph_(graph) {}
  ~BackwardLoop() {
    if (blocks_.size() > finished_.size()) graph_.abandon_block(blocks_.back());
    for (auto& block : finished_) {
      if (block) graph_.abandon_block(std::move(block));
    }
  }
  BackwardLoop(const BackwardLoop&) = delete;
  BackwardLoop& operator=(const BackwardLoop&) = delete;

  Tensors begin(const std::vector<TensorType>& types) {
    Block* block = graph_.begin_block(types);
    const Tensors arguments = block->arguments;
    blocks_.push_back(block);
    for (Carried& carried : carried_) carried.through.push_back(add_argument(*block, carried.initial->type));
    return arguments;
  }

  void finish(const Tensors& results) { finished_.push_back(graph_.finish_block(blocks_.back(), results)); }

  // Adds a loop-carried value that starts at `initial`. Returns its index among the carried values.
  size_t carry(Tensor* initial) {
    Carried carried{initial, {}};
    for (Block* block : blocks_) carried.through.push_back(add_argument(*block, initial->type));
    carried_.push_back(std::move(carried));
    return carried_.size() - 1;
  }
  // The carried value at this point of the current block: initially the block's argument, later the tensor that the
  // caller has put in its place.
  Tensor*& current(size_t carried) { return carried_[carried].through[blocks_.size() - 1]; }
  Block& block() { return *blocks_.back(); }

  // Creates the loop operation. Its last results are the final carried values.
  Operation* create(Kind kind, Tensors inputs) {
    for (const Carried& carried : carried_) {
      inputs.push_back(carried.initial);
      for (size_t i = 0; i < finished_.size(); ++i) finished_[i]->results.push_back(carried.through[i]);
    }
    return graph_.create(kind, std::move(inputs), {}, {}, std::move(finished_));
  }
  Tensor* result_of(const Operation* operation, size_t carried) const {
    return operation->output(operation->outputs.size() - carried_.size() + carried);
  }

 private:
  struct Carried {
    Tensor* initial;
    Tensors through;  // Tensors that represent the carried value, one per block.
  };

  Graph& graph_;
  std::vector<Block*> blocks_;
  std::vector<std::unique_ptr<Block>> finished_;
  std::vector<Carried> carried_;
};

// Adds a carried value to an existing loop. The value starts at zero, becomes the loop's last result, and passes
// through all blocks unchanged until the caller replaces a block's result.
Tensor* carry_from_zero(Operation& loop, const TensorType& type) {
  for (auto& block : loop.blocks) block->results.push_back(add_argument(*block, type));
  loop.attributes.set(from_zero, loop.attributes.integer(from_zero) + 1);
  return loop.graph().append_output(&loop, type);
}

// Returns the smallest id among an operation and everything in its blocks. Blocks are built in order, before the
// operation that owns them, so only the first operation of each block is searched.
int64_t first_number(const Operation& operation) {
  int64_t first = operation.id;
  for (const auto& block : operation.blocks) {
    if (!block->operations.empty()) first = std::min(first, first_number(*block->operations[0]));
  }
  return first;
}

bool assigned_since(const Block& block, const Tensor* variable, int64_t id) {
  for (const auto& operation : block.operations) {
    if (operation->id >= id && operation->is("assign") && operation->input(0) == variable) return true;
    for (const auto& inner : operation->blocks) {
      if (assigned_since(*inner, variable, id)) return true;
    }
  }
  return false;
}

// Saves tensors of one block of a loop in histories. Each iteration of the forward loop pushes the tensor, and each
// iteration of the backward loop pops it. Loop-invariant tensors are recomputed instead, because a weight that is read
// in the loop would otherwise be copied once per iteration.
class IterationHistory final : public Substitutes {
 public:
  IterationHistory(Operation& loop, size_t block, BackwardLoop& backward)
      : Substitutes(*loop.blocks[block]), loop_(loop), block_(*loop.blocks[block]), backward_(backward) {}

  void know(const Tensor* inner, Tensor* here) { saved_[inner] = here; }

 private:
  Tensor* save(Tensor* inner) override {
    TensorType history = inner->type;
    ++history.history;
    Tensor* kept = carry_from_zero(loop_, history);
    block_.results.back() = graph()
                                .create_unchecked(block_, definition_of("history_push"),
                                                  {block_.arguments.back(), inner}, {}, {}, {history})
                                ->output();
    const size_t carried = backward_.carry(kept);
    Operation* pop = graph().create_unchecked(backward_.block(), definition_of("history_pop"),
                                              {backward_.current(carried)}, {}, {}, {history, inner->type});
    backward_.current(carried) = pop->output(0);
    return pop->output(1);
  }

  bool repeatable(const Operation& origin) override { return Substitutes::repeatable(origin) || is_invariant(origin); }

  // Whether the operation returns the same result in every iteration of the loop, and would still return it after the
  // loop.
  bool is_invariant(const Operation& operation) {
    if (const auto found = invariant_.find(&operation); found != invariant_.end()) return found->second;
    return invariant_[&operation] = finds_invariant(operation);
  }

  bool finds_invariant(const Operation& operation) {
    if (operation.is({"argument", "undefined"}) || !operation.blocks.empty()) return false;
    if (is_effect(operation) || operation.outputs.size() != 1) return false;
    if (operation.is("read")) return keeps_its_value(operation.input(0));
    return std::all_of(operation.inputs.begin(), operation.inputs.end(), [&](const Tensor* t) {
      return t->operation->parent != &hidden() || is_invariant(*t->operation);
    });
  }

  // Whether a variable has the same value during and after the loop, i.e. it is assigned neither within nor after the
  // outermost operation that contains the loop.
  bool keeps_its_value(const Tensor* variable) {
    const Operation* outermost = &loop_;
    while (outermost->parent->owner) outermost = outermost->parent->owner;
    return !assigned_since(*outermost->parent, variable, first_number(*outermost));
  }

  Operation& loop_;
  Block& block_;
  BackwardLoop& backward_;
  std::unordered_map<const Operation*, bool> invariant_;
};

// Gradients of the outside tensors that a loop used, accumulated over its iterations. The sum for a tensor becomes a
// loop-carried value when the first gradient of that tensor appears.
class CaptureSums {
 public:
  CaptureSums(GradientContext& g, BackwardLoop& backward) : g_(g), backward_(backward), carried_(g.captures.size()) {
    for (Tensor* capture : g.captures) zeros_.push_back(Builder(g.graph()).zeros_like(capture));
  }

  void add(const Tensors& gradients, size_t first) {
    for (size_t i = 0; i < carried_.size(); ++i) {
      Tensor* gradient = gradients[first + i];
      if (!gradient) continue;
      if (!carried_[i]) carried_[i] = backward_.carry(zeros_[i]);
      Tensor*& sum = backward_.current(*carried_[i]);
      sum = Builder(g_.graph()).add(sum, gradient);
    }
  }

  void deliver(const Operation* backward) {
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (carried_[i]) g_.capture_result[i] = backward_.result_of(backward, *carried_[i]);
    }
  }

 private:
  GradientContext& g_;
  BackwardLoop& backward_;
  Tensors zeros_;
  std::vector<std::optional<size_t>> carried_;
};

// Indices of the loop-carried values whose gradients are needed.
using Positions = std::vector<size_t>;

Positions positions_where(const std::vector<bool>& flags) {
  Positions positions;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) positions.push_back(i);
  }
  return positions;
}

Tensors picked(const Tensors& tensors, const Positions& positions, size_t first = 0) {
  Tensors result;
  for (size_t i : positions) result.push_back(tensors[first + i]);
  return result;
}

// Marks the results of a block that depend on the marked arguments or on captured tensors. Returns whether any result
// was newly marked; callers then search again, because a marked result is the argument of the next iteration.
bool spread(const Block& block, const GradientContext& g, const std::vector<bool>& arguments, size_t first_argument,
            std::vector<bool>& results, size_t first_result) {
  Tensors sources = picked(block.arguments, positions_where(arguments), first_argument);
  sources.insert(sources.end(), g.captures.begin(), g.captures.end());
  const std::unordered_set<const Tensor*> reached = dependents(block, sources);
  bool news = false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] || !reached.contains(block.results[first_result + i])) continue;
    results[i] = news = true;
  }
  return news;
}

// The incoming gradients of the loop's results at these positions, with zeros for results that no gradient reaches.
Tensors incoming_or_zeros(GradientContext& g, const Positions& positions) {
  Tensors result;
  for (size_t i : positions)
    result.push_back(g.incoming(i) ? g.incoming(i) : Builder(g.graph()).zeros_like(g.output(i)));
  return result;
}

// Builds the derivative of one loop block in the current block. Returns the gradients of `arguments`, given the
// gradients of `results`, and adds the gradients of captured tensors to `sums`. An argument that no gradient reaches
// gets zeros, with the shape of the corresponding entry of `like`, or of the argument itself if `like` is empty.
Tensors d_block(const Block& block, const Tensors& results, const Tensors& incoming, const Tensors& arguments,
                const Tensors& like, GradientContext& g, CaptureSums& sums) {
  Seeds seeds;
  for (size_t i = 0; i < results.size(); ++i) seeds.emplace_back(results[i], incoming[i]);
  Tensors wanted = arguments;
  wanted.insert(wanted.end(), g.captures.begin(), g.captures.end());
  Tensors gradients = block_gradients(block, seeds, wanted);
  sums.add(gradients, arguments.size());
  gradients.resize(arguments.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) gradients[i] = Builder(g.graph()).zeros_like(like.empty() ? arguments[i] : like[i]);
  }
  return gradients;
}

// The number of iterations of a `for`, as a scalar int64 so that bounds near the limits of int32 do not overflow.
Tensor* iteration_count(Builder& b, const Operation& loop) {
  const auto wide = [&](size_t i) { return b.cast(b.reshape(loop.input(i), Ints{}), DType::int64); };
  Tensor *lower = wide(0), *upper = wide(1), *step = wide(2);
  Tensor* sign = b.unary("sign", step);
  Tensor* rounded_up = b.sub(b.add(b.sub(upper, lower), step), sign);
  Tensor* zero = b.scalar(DType::int64, 0);
  return b.binary("maximum", b.div(rounded_up, step), zero);
}

}  // namespace

void d_if(GradientContext& g) {
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(d_branch(g, 0));
  try {
    blocks.push_back(d_branch(g, 1));
  } catch (...) {
    g.graph().abandon_block(std::move(blocks[0]));
    throw;
  }
  const Operation* backward = g.graph().create("if", {g.input(0)}, {}, {}, std::move(blocks));
  for (size_t i = 0; i < g.captures.size(); ++i) g.capture_result[i] = backward->output(i);
}

void d_for(GradientContext& g) {
  Builder b(g.graph());
  Operation& loop = g.operation;
  const Block& body = *loop.blocks[0];
  std::vector<bool> active(g.incoming_count(), false);
  for (size_t i = 3; i < loop.inputs.size(); ++i) active[i - 3] = g.needs(i);
  while (spread(body, g, active, 1, active, 0)) {}
  const Positions values = positions_where(active);

  Tensor* count = iteration_count(b, loop);
  Tensors inputs = {b.scalar(DType::int32, 0), b.cast(count, DType::int32), b.scalar(DType::int32, 1)};
  const Tensors incoming = incoming_or_zeros(g, values);
  inputs.insert(inputs.end(), incoming.begin(), incoming.end());

  BackwardLoop backward(g.graph());
  CaptureSums sums(g, backward);
  std::vector<TensorType> types = types_of(incoming);
  types.insert(types.begin(), TensorType{DType::int32, Shape(Dims{})});
  Tensors arguments = backward.begin(types);
  {
    IterationHistory saved(loop, 0, backward);
    const auto wide = [&](Tensor* t) { return b.cast(t, DType::int64); };
    Tensor* from_start = wide(arguments[0]);
    Tensor* from_end = b.sub(b.sub(count, 1), from_start);
    Tensor* offset = b.mul(from_end, wide(loop.input(2)));
    Tensor* index = b.add(wide(loop.input(0)), offset);
    saved.know(body.arguments[0], b.cast(index, DType::int32));
    arguments.erase(arguments.begin());
    backward.finish(
        d_block(body, picked(body.results, values), arguments, picked(body.arguments, values, 1), arguments, g, sums));
  }
  const Operation* result = backward.create("for", std::move(inputs));
  for (size_t i = 0; i < values.size(); ++i) {
    if (const size_t operand = values[i] + 3; operand < loop.inputs.size()) g.set(operand, result->output(i));
  }
  sums.deliver(result);
}

// Derivative of while. `before` runs once more than `after`, both in the original loop and in the backward loop.
void d_while(GradientContext& g) {
  Builder b(g.graph());
  Operation& loop = g.operation;
  Block &before = *loop.blocks[0], &after = *loop.blocks[1];
  std::vector<bool> of_arguments(before.arguments.size(), false), of_results(g.incoming_count(), false);
  for (size_t i = 0; i < loop.inputs.size(); ++i) of_arguments[i] = g.needs(i);
  bool news = true;
  while (news) {
    news = spread(before, g, of_arguments, 0, of_results, 1);
    news |= spread(after, g, of_results, 0, of_arguments, 0);
  }
  const Positions values = positions_where(of_arguments), results = positions_where(of_results);

  const TensorType counter{DType::int32, Shape(Dims{})};
  Tensor* count = carry_from_zero(loop, counter);
  Operation* one = g.graph().create_unchecked(after, definition_of("constant"), {},
                                              {{"value", ConstantData::splat(DType::int32, {}, 1.0)}}, {}, {counter});
  after.results.back() = g.graph()
                             .create_unchecked(after, definition_of("addition"),
                                               {after.arguments.back(), one->output()}, {}, {}, {counter})
                             ->output();

  BackwardLoop backward(g.graph());
  CaptureSums sums(g, backward);
  const Tensors incoming = incoming_or_zeros(g, results);
  const size_t remaining = backward.carry(count);
  Tensors d_results = backward.begin(types_of(incoming)), d_values;
  {
    const IterationHistory saved(loop, 0, backward);
    d_values =
        d_block(before, picked(before.results, results, 1), d_results, picked(before.arguments, values), {}, g, sums);
    Tensor* again = b.binary("greater_than", backward.current(remaining), b.scalar(DType::int32, 0));
    Tensors given = d_values;
    given.insert(given.begin(), again);
    backward.finish(given);
  }
  const Tensors d_next = backward.begin(types_of(d_values));
  {
    const IterationHistory saved(loop, 1, backward);
    const Tensors d_before =
        d_block(after, picked(after.results, values), d_next, picked(after.arguments, results), {}, g, sums);
    backward.current(remaining) = b.sub(backward.current(remaining), 1);
    backward.finish(d_before);
  }
  const Operation* result = backward.create("while", incoming);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < loop.inputs.size()) g.set(values[i], result->output(i));
  }
  sums.deliver(result);
}

}  // namespace mpsgraph::ops
