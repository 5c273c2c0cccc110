// Specialization: extracts the part of a user's graph that one executable needs, with the types of the feeds.
//
//   %x = placeholder() {type=float32[-1,2]}             %x = placeholder() {type=float32[3,2]}
//   %s = sin(%x) : float32[-1,2]                  ->    %constant = constant() {value=int32[2] [0x00000003,0x00000002]}
//   %n = shape_of(%x) : int32[2]                        %y = reshape(%x, %constant) : float32[3,2]
//   %y = reshape(%x, %n) : float32[-1,2]
// (The target is %y, and float32[3,2] is fed.)
//
// In one walk in creation order, each needed operation is copied, and its types are inferred again from the types and
// values now known. Shape arithmetic is folded along the way, so that every value on which a shape depends is a
// constant in the result. At the first operation that needs values only known at run time, the graph is divided: the
// operations before it become the program, and the remainder (Rest) is specialized when a run has computed the values.
// Values that determine no shape never divide a graph; they stay data. For a slice whose range is given by tensors, the
// number of elements determines the shape, but the start does not. If %n in the example were fed, the program would
// consist of the placeholders, and the rest would consist of the reshape. Errors name the placeholder or the operation,
// and where it was built.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/retyping.h"
#include "core/definition.h"
#include "core/known_values.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

constexpr int64_t max_folded_elements = 64;  // enough elements for shapes and for indices into shapes

// An operation at which specialization ends, because it needs the run-time values of tensors of the source graph.
struct DataDependent {
  const Operation* operation;
  std::vector<const Tensor*> deciding;
  // Set if the operation is a slice: its start and size, as tensors of the program. The rest is specialized as soon as
  // the size is available.
  std::optional<ops::SlicePlaces> places = {};
};

class Specializer {
 public:
  Specializer(const Graph& source, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations)
      : source_(source),
        targets_(targets),
        target_operations_(target_operations),
        needed_(needed_by(source, roots())),
        rewriter_(source, needed_, [this](Rewriter&, const Operation& op) { return visit(op); }) {
    for (const auto& [placeholder, type] : feeds) feed(placeholder, type);
  }

  // Replaces a feed with a constant once its value is known.
  void decide(const Tensor& placeholder, ConstantPtr value) {
    rewriter_.stand_for(placeholder, rewriter_.graph().add("constant", {}, {{"value", std::move(value)}}));
  }

  // Records how each operation was specialized. Returns null if the result cannot be retyped for other feeds.
  std::unique_ptr<Retyping> trace() {
    Retyping::Trace trace;
    trace_ = &trace;
    rewriter_.copy_operations(source_.root());
    if (data_dependent_ || !trace.complete) return nullptr;
    trace.feeds = program_.feeds;
    trace.graph = rewriter_.take_graph();
    return std::make_unique<Retyping>(std::move(trace));
  }

  Program run() {
    rewriter_.copy_operations(source_.root());
    if (data_dependent_)
      cut(*data_dependent_);
    else
      set_targets();
    program_.graph = rewriter_.take_graph();
    sweep(program_);
    return std::move(program_);
  }

 private:
  void set_targets() {
    for (const Tensor* target : targets_) {
      Tensor* value = rewriter_.now(target);
      if (value->operation->is("variable")) value = rewriter_.graph().add("read", {value});
      program_.targets.push_back(value);
    }
    for (const Operation* operation : target_operations_)
      program_.target_operations.push_back(rewriter_.now(operation));
  }

  std::vector<const Operation*> roots() const {
    std::vector<const Operation*> result;
    auto add = [&](const Operation* operation, std::string_view role) {
      if (&operation->graph() != &source_)
        throw GraphError(cat(role, " '", operation->name, "' belongs to another graph"));
      if (operation->parent != &source_.root()) {
        throw GraphError(cat(role, " '", operation->name, "' is defined in a block of control flow: return its value ",
                             "from the block and use the result of the control-flow operation", operation->where()));
      }
      result.push_back(operation);
    };
    for (const Tensor* target : targets_) {
      add(target->operation, "target");
      if (target->type.history) {
        throw GraphError(cat("target '", target->name(), "' must be a tensor, got the ", target->type,
                             " that a loop keeps for its derivative", target->operation->where()));
      }
    }
    for (const Operation* operation : target_operations_) add(operation, "target operation");
    return result;
  }

  void feed(Tensor* placeholder, const TensorType& type) {
    const Operation& operation = *placeholder->operation;
    if (&placeholder->graph() != &source_)
      throw GraphError(cat("feed '", placeholder->name(), "' belongs to another graph"));
    if (!operation.is("placeholder")) {
      throw GraphError(
          cat("only placeholders can be fed, got feed '", placeholder->name(), "', a result of ", operation.kind()));
    }
    if (rewriter_.has(operation)) throw GraphError(cat("placeholder '", operation.name, "' is fed twice"));
    const TensorType& declared = placeholder->type;
    if (type.dtype != declared.dtype) {
      throw DTypeError(cat("[placeholder] the feed for '", operation.name, "' must be ", declared, ", got ", type,
                           ": convert the array to ", declared.dtype, " first", operation.where()));
    }
    if (!type.shape.known() || !compatible(type.shape, declared.shape)) {
      throw ShapeError(cat("[placeholder] the feed for '", operation.name, "' must be ", declared, ", got ", type,
                           operation.where()));
    }
    Graph& graph = rewriter_.graph();
    Operation* copy =
        graph.create_unchecked(graph.root(), *operation.definition, {}, {{"type", type}}, operation.name, {type});
    copy->location = operation.location;
    rewriter_.stand_for(operation, copy);
    program_.feeds.push_back(copy->output());
  }

  // Copies an operation with its types inferred again, and returns its results. Handles control flow and shape
  // arithmetic separately.
  Rewriter::Replacement visit(const Operation& op) {
    if (op.is("placeholder")) {
      throw GraphError(cat("placeholder '", op.name, "' ", op.output()->type, " is needed but not fed: add it to the ",
                           "feeds", op.where()));
    }
    std::vector<Tensor*> inputs = rewriter_.now(op.inputs);
    Attributes attributes = op.attributes;
    std::string where = op.where();
    if (!settle_tensor_attributes(*op.definition, inputs, attributes, where)) {
      if (op.is("band_part")) {
        if (trace_) trace_->complete = false;
        return std::vector<Tensor*>{band_of_data(inputs)};
      }
      if (op.is({"slice", "slice_update_data"}) && waits_for_count(op, inputs)) return {};
      return wait_for_values(op, inputs, static_cast<size_t>(op.definition->min_inputs));
    }
    if (const Block* taken = taken_branch(op, inputs)) {
      if (trace_) trace_->deciding.push_back(inputs[0]);
      rewriter_.copy_operations(*taken);
      return data_dependent_ ? std::nullopt : Rewriter::Replacement(rewriter_.now(taken->results));
    }
    std::vector<std::unique_ptr<Block>> blocks;
    try {
      for (size_t i = 0; i < op.blocks.size() && !data_dependent_; ++i)
        blocks.push_back(rewriter_.copy_block(*op.blocks[i], argument_types(op, i, inputs, blocks)));
    } catch (const ShapeError&) {
      // A type error in a branch of an `if` counts only if that branch is taken, so specialization waits until the
      // predicate is known.
      if (!op.is("if") || op.parent != &source_.root() || inputs[0]->operation->is("constant")) throw;
      return wait({&op, {op.inputs[0]}});
    }
    if (data_dependent_) {
      data_dependent_->operation = &op;  // the control-flow operation as a whole waits for the values
      return {};
    }
    if (op.is("if")) settle_undefined(*blocks[0], *blocks[1]);
    if (op.is({"while", "for"})) {
      settle_from_zero(op, blocks);
      require_steady(op, inputs, blocks);
    }
    std::vector<TensorType> types =
        op.definition->infer(InferContext(*op.definition, inputs, attributes, blocks, std::move(where)));
    const auto known_shape = [](const TensorType& type) { return type.shape.known(); };
    if (!op.is("undefined") && !std::ranges::all_of(types, known_shape)) return wait_for_values(op, inputs, 0);
    Operation* copy = rewriter_.append(op, std::move(inputs), std::move(types), std::move(blocks));
    copy->attributes = std::move(attributes);
    if (op.is("variable")) {
      program_.variables.push_back(copy->output());
      program_.source_variables.push_back(op.output());
    }
    Tensor* const constant = known(op, *copy);
    if (trace_) trace_->steps.push_back({&op, rewriter_.now(op.inputs), copy, constant});
    if (constant) {
      if (op.is("shape_of") || has_input_of_shapes(*copy)) of_shapes_.insert(constant);
      return std::vector<Tensor*>{constant};
    }
    return results_of(*copy);
  }

  // The branch that replaces an `if` because its predicate is known and only its results are needed; otherwise null.
  static const Block* taken_branch(const Operation& op, const std::vector<Tensor*>& inputs) {
    if (!op.is("if") || op.outputs.empty()) return nullptr;
    const std::optional<Ints> predicate = constant_value(inputs[0]);
    if (!predicate || predicate->size() != 1 || has_effect(op)) return nullptr;
    const Block& taken = *op.blocks[(*predicate)[0] != 0 ? 0 : 1];
    const auto undefined = [](const Tensor* result) { return result->operation->is("undefined"); };
    return std::ranges::any_of(taken.results, undefined) ? nullptr : &taken;
  }

  static bool has_effect(const Operation& op) {
    const auto inner = [](const auto& block) {
      return std::ranges::any_of(block->operations, [](const auto& held) { return has_effect(*held); });
    };
    return is_effect(op) || std::ranges::any_of(op.blocks, inner);
  }

  // The constant result of shape arithmetic on known operands; otherwise null.
  Tensor* known(const Operation& op, const Operation& copy) {
    if (copy.outputs.size() != 1 || op.is("constant")) return nullptr;
    const TensorType& type = copy.output()->type;
    if (!type.shape.known() || type.shape.elements() > max_folded_elements) return nullptr;
    Tensor* integers = is_inexact(type.dtype) ? nullptr : known_integers(op, copy);
    return integers ? integers : known_numbers(op, copy);
  }

  bool has_input_of_shapes(const Operation& copy) const {
    return std::ranges::any_of(copy.inputs, [&](const Tensor* input) { return of_shapes_.contains(input); });
  }

  // The constant result of computing sizes in floating point, such as with the scale factor of a resize. It equals the
  // value that a run would compute.
  Tensor* known_numbers(const Operation& op, const Operation& copy) {
    if (!copy.definition->elementwise && !is_shape_arithmetic(op.kind())) return nullptr;
    if (!has_input_of_shapes(copy) || is_effect(op) || !copy.control_dependencies.empty()) return nullptr;
    const ConstantPtr value = computed_from_constants(copy);
    return value ? rewriter_.constant(op, value) : nullptr;
  }

  Tensor* known_integers(const Operation& op, const Operation& copy) {
    if (!is_shape_arithmetic(op.kind())) return nullptr;
    const TensorType& type = copy.output()->type;
    auto constant = [](const Tensor* input) { return input->operation->is("constant"); };
    if (!op.is("shape_of") && !std::ranges::all_of(copy.inputs, constant)) return nullptr;
    auto values = constant_value(copy.output());
    return values ? rewriter_.constant(op, integer_constant(type, *values)) : nullptr;
  }

  // The initial types of a block's arguments.
  static std::vector<TensorType> argument_types(const Operation& op, size_t block, const std::vector<Tensor*>& inputs,
                                                const std::vector<std::unique_ptr<Block>>& done) {
    std::vector<TensorType> types;
    for (const Tensor* argument : op.blocks[block]->arguments) types.push_back(argument->type);
    if (op.is("while")) {
      const std::vector<Tensor*>& from = block == 0 ? inputs : done[0]->results;
      // In a `while`, the first result of block `before` is the condition. The other results become the arguments of
      // block `after`.
      for (size_t i = block; i < from.size(); ++i) types[i - block] = from[i]->type;
    } else if (op.is("for")) {
      for (size_t i = 3; i < inputs.size(); ++i) types[i - 2] = inputs[i]->type;
    }
    return types;
  }

  // Determines the types of the loop-carried values that have no initial operand but start at zero, from the results of
  // the loop's last block.
  static void settle_from_zero(const Operation& op, const std::vector<std::unique_ptr<Block>>& blocks) {
    const std::vector<Tensor*>& next = blocks.back()->results;
    const auto count = static_cast<size_t>(op.attributes.integer("from_zero"));
    for (size_t from_end = 1; from_end <= count; ++from_end) {
      const TensorType& type = next[next.size() - from_end]->type;
      for (const auto& block : blocks) {
        Tensor* argument = block->arguments[block->arguments.size() - from_end];
        argument->type = type;
        argument->operation->attributes.set("type", type);
      }
    }
  }

  // Gives an undefined result of one branch the type of the other branch's result.
  static void settle_undefined(Block& then, Block& otherwise) {
    auto settle = [](Tensor* nothing, const Tensor* other) {
      if (!nothing->operation->is("undefined")) return;
      nothing->type = other->type;
      nothing->operation->attributes.set("type", other->type);
    };
    for (size_t i = 0; i < then.results.size() && i < otherwise.results.size(); ++i) {
      settle(then.results[i], otherwise.results[i]);
      settle(otherwise.results[i], then.results[i]);
    }
  }

  static void require_steady(const Operation& op, const std::vector<Tensor*>& inputs,
                             const std::vector<std::unique_ptr<Block>>& blocks) {
    size_t skip = op.is("for") ? 3 : 0;
    const std::vector<Tensor*>& next = blocks.back()->results;
    for (size_t i = 0; i < next.size() && i + skip < inputs.size(); ++i) {
      if (next[i]->type == inputs[i + skip]->type) continue;
      throw UnsupportedError(cat("[", op.kind(), "] shapes must not change in a loop, but value ", i, " of '", op.name,
                                 "' is ", inputs[i + skip]->type, " at first and ", next[i]->type,
                                 " after an iteration", op.where()));
    }
  }

  // Computes band_part with bounds that are tensors: keeps x[i, j] where i - j <= lower and j - i <= upper. A negative
  // bound keeps the whole triangle on that side of the diagonal.
  Tensor* band_of_data(const std::vector<Tensor*>& inputs) {
    Builder b(rewriter_.graph());
    const Dims& dims = inputs[0]->shape().dims();
    const auto along = [&](int64_t axis) {
      Dims places(2, 1);
      places[axis] = dims[dims.size() - 2 + axis];
      Tensor* place = b.graph().add("coordinate_along_axis", {b.ints(places)}, {{"axis", axis}});
      return b.cast(place, DType::int64);
    };
    Tensor *row = along(0), *column = along(1);
    const auto keeps = [&](Tensor* distance, Tensor* given) {
      Tensor* bound = b.cast(given, DType::int64);
      if (bound->shape().rank() != 0) bound = b.reshape(bound, Ints{});
      Tensor* within = b.binary("less_than_or_equal_to", distance, bound);
      return b.binary("logical_or", b.binary("less_than", bound, b.scalar_like(bound, 0)), within);
    };
    Tensor* keeps_upper = keeps(b.sub(column, row), inputs[2]);
    Tensor* keep = b.binary("logical_and", keeps(b.sub(row, column), inputs[1]), keeps_upper);
    return b.select(keep, inputs[0], b.scalar_like(inputs[0], 0));
  }

  // Ends the program at a slice whose starts and ends are only known at run time. The rest is specialized once the
  // number of elements of the slice is known. For slices with unknown strides, and slices within blocks, the rest is
  // specialized only when the starts, ends, and strides themselves are known; the function then returns false.
  bool waits_for_count(const Operation& op, const std::vector<Tensor*>& inputs) {
    const size_t first = static_cast<size_t>(op.definition->min_inputs);
    const std::optional<Ints> strides = constant_value(inputs[first + 2]);
    const Shape& source = inputs[0]->shape();
    const bool ranges =
        inputs[first]->shape() == Shape{source.rank()} && inputs[first + 1]->shape() == Shape{source.rank()};
    const auto wrong = [](int64_t stride) { return stride == 0 || stride > INT32_MAX || stride < -INT32_MAX; };
    if (op.parent != &source_.root() || !ranges || !strides || std::ranges::any_of(*strides, wrong) ||
        static_cast<int>(strides->size()) != source.rank())
      return false;
    Builder b(rewriter_.graph());
    wait({&op,
          {},
          ops::slice_places(b, b.ints(source.dims()), inputs[first], inputs[first + 1], *strides, op.attributes)});
    return true;
  }

  Rewriter::Replacement wait(DataDependent data_dependent) {
    data_dependent_ = std::move(data_dependent);
    rewriter_.stop();
    return std::nullopt;
  }

  // Creates, in the rest, the slice or slice update whose number of elements has become known.
  static Tensor* windowed(Rewriter& later, const Operation& op, Tensor* begin, Tensor* count, const Ints& strides) {
    Ints squeezed;
    for (size_t axis = 0; axis < strides.size(); ++axis)
      if (op.attributes.integer("squeeze_mask") >> axis & 1) squeezed.push_back(static_cast<int64_t>(axis));
    const Attributes axes{{"axes", squeezed}}, steps{{"strides", strides}};
    Tensor* source = later.now(op.input(0));
    if (op.is("slice")) {
      if (squeezed.empty()) return later.create(op, "dynamic_slice", {source, begin, count}, steps)->output();
      Tensor* part = later.graph().add("dynamic_slice", {source, begin, count}, steps);
      return later.create(op, "squeeze", {part}, axes)->output();
    }
    Tensor* update = later.now(op.input(1));
    if (!squeezed.empty()) update = later.graph().add("expand_dims", {update}, axes);
    return later.create(op, "dynamic_slice_update_data", {source, update, begin, count}, steps)->output();
  }

  // Ends the program at an operation that needs the run-time values of operand `first` and all later operands, which
  // are integers.
  Rewriter::Replacement wait_for_values(const Operation& op, const std::vector<Tensor*>& inputs, size_t first) {
    DataDependent data_dependent{&op, {}};
    bool reachable = true;
    for (size_t i = first; i < inputs.size(); ++i) {
      const TensorType& type = inputs[i]->type;
      const bool list =
          is_integer(type.dtype) && type.shape.rank() <= 1 && type.shape.elements() <= max_folded_elements;
      if (!list || inputs[i]->operation->is("constant")) continue;
      data_dependent.deciding.push_back(op.inputs[i]);
      reachable &= op.inputs[i]->operation->parent == &source_.root();
    }
    if (!data_dependent.deciding.empty() && reachable) return wait(std::move(data_dependent));
    throw UnsupportedError(cat("[", op.kind(), "] the shape of '", op.output()->name(), "' of type ", op.output()->type,
                               " depends on values computed within a block of control flow; compute them outside of "
                               "the block, or from shapes",
                               op.where()));
  }

  // Ends the program before an operation that needs run-time values. That operation and the following ones become the
  // rest.
  void cut(const DataDependent& data_dependent) {
    auto rest = std::make_shared<Rest>();
    std::vector<bool> remains(needed_.size());
    for (const auto& operation : source_.root().operations)
      remains[operation->id] = needed_[operation->id] && !rewriter_.has(*operation);
    mark_blocks(source_.root(), remains);
    const auto late = [&](const Operation* operation) {
      return operation->is("variable") || !rewriter_.has(*operation);
    };
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (late(targets_[i]->operation)) continue;
      program_.targets.push_back(rewriter_.now(targets_[i]));
      rest->early.push_back(i);
    }
    Tensor *begin = nullptr, *count = nullptr;  // start and number of elements of a slice, as feeds of the rest
    Rewriter later(source_, remains, [&](Rewriter& rewriter, const Operation& operation) -> Rewriter::Replacement {
      if (!data_dependent.places || &operation != data_dependent.operation) return std::nullopt;
      const Ints strides = *constant_value(rewriter_.now(operation.inputs.back()));
      return std::vector<Tensor*>{windowed(rewriter, operation, begin, count, strides)};
    });
    std::unordered_map<const Tensor*, size_t> feeds;
    const auto feed_of = [&](Tensor* value) {
      const std::string_view name = value->operation->is("placeholder") ? value->operation->name : std::string_view();
      rest->feeds.push_back(later.graph().add("placeholder", {}, {{"type", value->type}}, name));
      rest->sources.push_back(source_of(value));
      return rest->feeds.back();
    };
    const auto import = [&](const Tensor* tensor) {
      const Operation& operation = *tensor->operation;
      if (!rewriter_.has(operation) || !imported_.insert(tensor).second) return;
      Tensor* value = rewriter_.now(tensor);
      if (operation.is("variable")) {
        later.clone(operation);
        remains[operation.id] = true;
      } else if (value->operation->is("constant")) {
        later.stand_for(*tensor, later.graph().add("constant", {}, value->operation->attributes));
      } else if (value->type.history) {
        throw UnsupportedError(cat("[", operation.kind(), "] the derivative of '", operation.name,
                                   "' was built after '", data_dependent.operation->name,
                                   "', whose shape depends on values; build the ", "derivative before that operation",
                                   operation.where()));
      } else {
        feeds[tensor] = rest->feeds.size();
        later.stand_for(*tensor, feed_of(value));
      }
    };
    for (const auto& operation : source_.root().operations) {
      if (!remains[operation->id]) continue;
      for (const Tensor* input : operation->inputs) import(input);
      for (const Tensor* capture : operation->captures()) import(capture);
    }
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (late(targets_[i]->operation)) import(targets_[i]);
    }
    if (data_dependent.places) {
      begin = feed_of(data_dependent.places->begin);
      rest->deciding.push_back(rest->feeds.size());
      count = feed_of(data_dependent.places->count);
    }
    later.copy_operations(source_.root());
    for (const auto& operation : source_.root().operations) {
      if (!remains[operation->id] || !operation->is("variable")) continue;
      rest->variables.push_back(later.now(operation->output()));
      rest->source_variables.push_back(operation->output());
    }
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (!late(targets_[i]->operation)) continue;
      rest->targets.push_back(later.now(targets_[i]));
      rest->late.push_back(i);
    }
    for (const Operation* operation : target_operations_) {
      if (rewriter_.has(*operation))
        program_.target_operations.push_back(rewriter_.now(operation));
      else
        rest->target_operations.push_back(later.now(operation));
    }
    for (const Tensor* tensor : data_dependent.deciding) rest->deciding.push_back(feeds.at(tensor));
    rest->graph = later.take_graph();
    program_.rest = std::move(rest);
  }

  // If an operation belongs to the rest, marks the operations in its blocks as belonging to the rest, too.
  void mark_blocks(const Block& block, std::vector<bool>& remains) const {
    for (const auto& operation : block.operations) {
      if (!remains[operation->id]) continue;
      for (const auto& inner : operation->blocks) {
        for (const auto& held : inner->operations) remains[held->id] = needed_[held->id];
        mark_blocks(*inner, remains);
      }
    }
  }

  // The source of a feed of the rest: a feed or a target of the preceding program.
  Rest::Source source_of(Tensor* value) {
    const auto fed = std::ranges::find(program_.feeds, value);
    if (fed != program_.feeds.end()) return {true, static_cast<size_t>(fed - program_.feeds.begin())};
    program_.targets.push_back(value);
    return {false, program_.targets.size() - 1};
  }

  const Graph& source_;
  const std::vector<Tensor*>& targets_;
  const std::vector<Operation*>& target_operations_;
  const std::vector<bool> needed_;
  Program program_;
  Rewriter rewriter_;
  Retyping::Trace* trace_ = nullptr;  // where to record the steps; null if they are not recorded
  std::optional<DataDependent> data_dependent_;  // set once specialization ends
  std::unordered_set<const Tensor*> imported_;  // tensors imported into the rest
  std::unordered_set<const Tensor*> of_shapes_;  // constants of the program that were computed from shapes
};

// Maps a rest's variables to the user's variables.
void name_sources(const Rest& rest, std::vector<Tensor*>& variables) {
  for (Tensor*& variable : variables) {
    const auto own = std::ranges::find(rest.variables, variable);
    variable = rest.source_variables[static_cast<size_t>(own - rest.variables.begin())];
  }
}

}  // namespace

std::vector<TensorType> target_types(const Program& program) {
  const size_t late = program.rest ? program.rest->late.size() : 0;
  const size_t early = program.rest ? program.rest->early.size() : program.targets.size();
  std::vector<TensorType> types(early + late);
  for (size_t i = 0; i < early; ++i) types[program.rest ? program.rest->early[i] : i] = program.targets[i]->type;
  for (size_t i = 0; i < late; ++i) types[program.rest->late[i]] = program.rest->targets[i]->type;
  return types;
}

Program specialize(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                   const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations) {
  return Specializer(graph, feeds, targets, target_operations).run();
}

std::unique_ptr<Retyping> trace(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                                const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations) {
  return Specializer(graph, feeds, targets, target_operations).trace();
}

Program specialize(const Rest& rest, const std::vector<TensorType>& feeds, const std::vector<ConstantPtr>& deciding) {
  std::vector<std::pair<Tensor*, TensorType>> typed;
  for (size_t i = 0; i < feeds.size(); ++i) typed.emplace_back(rest.feeds[i], feeds[i]);
  Specializer specializer(*rest.graph, typed, rest.targets, rest.target_operations);
  for (size_t i = 0; i < deciding.size(); ++i) specializer.decide(*rest.feeds[rest.deciding[i]], deciding[i]);
  Program program = specializer.run();
  name_sources(rest, program.source_variables);
  for (const Rest::Source& source : rest.sources) program.computed.push_back(!source.is_given);
  if (program.rest) {
    auto next = std::const_pointer_cast<Rest>(program.rest);
    name_sources(rest, next->source_variables);
    for (Rest::Source& source : next->sources) source.is_given = source.is_feed && rest.sources[source.index].is_given;
  }
  return program;
}

}  // namespace mpsgraph::compiler
