// Passes printed values out of control-flow blocks. The most recent values of each print, with their sequence numbers,
// are passed around loops and out of branches and reported afterwards.
//
//   for { %p = print(%x); ... }   ->   %v, %n, %c = for(zeros...) { %p = print(%x);
//                                        %c' = %c + 1; %v' = [%p, %v...]; %n' = [%c', %n...]; ... }
//                                      report_prints(%v, %n, %c)
//
// Here, %v holds the values, %n their sequence numbers, and %c the total count. A sequence number of 0 marks an unused
// entry.
#include "backends/metal/block_prints.h"

#include <algorithm>
#include <map>

#include "compiler/passes.h"
#include "core/definition.h"

namespace mpsgraph::metal {
namespace {

const TensorType count_type{DType::int32, Shape(Dims{1})}, numbers_type{DType::int32, Shape(Dims{kept_prints})};

void collect_prints(const Operation& operation, std::vector<const Operation*>& found) {
  for (const auto& block : operation.blocks)
    for (const auto& inner : block->operations) {
      if (inner->is("print")) found.push_back(inner.get());
      collect_prints(*inner, found);
    }
}

bool has_elements(const Operation& print) { return print.output()->shape().elements() > 0; }

TensorType values_type(const Operation& print) {
  Dims dims = print.output()->shape().dims();
  dims.insert(dims.begin(), kept_prints);
  return {print.output()->dtype(), Shape(dims)};
}

// Values that print operations have recorded so far: the most recent values of each print, and the total number of
// prints.
struct PrintState {
  struct Kept {
    Tensor* values;  // null if the printed tensor has no elements
    Tensor* numbers;
  };
  std::map<const Operation*, Kept> kept;
  Tensor* count = nullptr;

  std::vector<Tensor*> of(const std::vector<const Operation*>& prints) const {
    std::vector<Tensor*> all;
    for (const Operation* print : prints) {
      const Kept& own = kept.at(print);
      if (own.values) all.push_back(own.values);
      all.push_back(own.numbers);
    }
    all.push_back(count);
    return all;
  }
  void set(const std::vector<const Operation*>& prints, const std::vector<Tensor*>& all) {
    size_t next = 0;
    for (const Operation* print : prints) {
      Kept& own = kept[print];
      own.values = has_elements(*print) ? all[next++] : nullptr;
      own.numbers = all[next++];
    }
    count = all[next];
  }
};

template <class Items, class More>
void insert_values(Items& items, size_t index, const More& more) {
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(index), more.begin(), more.end());
}

class PrintCarrier {
 public:
  explicit PrintCarrier(Graph& graph) : graph_(graph) {}

  void root(Block& block) {
    auto before = std::move(block.operations);
    block.operations.clear();
    for (auto& operation : before) {
      const auto prints = prints_within(*operation);
      PrintState state;
      if (!prints.empty()) state = begin(block, prints);
      block.operations.push_back(std::move(operation));
      if (prints.empty()) continue;
      Operation& owner = *block.operations.back();
      carry(owner, prints, state);
      graph_.create_unchecked(block, definition_of("report_prints"), state.of(prints), {}, {}, {})->location =
          owner.location;
    }
  }

 private:
  Tensor* add(Block& block, Kind kind, std::vector<Tensor*> inputs, Attributes attributes, const TensorType& type) {
    const OperationDefinition& definition = definition_of(kind);
    attributes = complete_attributes(definition, std::move(attributes));
    return graph_.create_unchecked(block, definition, std::move(inputs), std::move(attributes), {}, {type})->output();
  }
  Tensor* filled(Block& block, const TensorType& type, double value) {
    return add(block, "constant", {}, {{"value", ConstantData::splat(type.dtype, type.shape.dims(), value)}}, type);
  }

  PrintState begin(Block& block, const std::vector<const Operation*>& prints) {
    PrintState state;
    for (const Operation* print : prints)
      state.kept[print] = {has_elements(*print) ? filled(block, values_type(*print), 0) : nullptr,
                           filled(block, numbers_type, 0)};
    state.count = filled(block, count_type, 0);
    return state;
  }

  void walk(Block& block, PrintState& state) {
    auto before = std::move(block.operations);
    block.operations.clear();
    for (auto& operation : before) {
      block.operations.push_back(std::move(operation));
      Operation& kept = *block.operations.back();
      if (kept.is("print")) keep(block, kept, state);
      if (const auto prints = prints_within(kept); !prints.empty()) carry(kept, prints, state);
    }
  }

  // Prepend `first` and drop the last entry.
  Tensor* pushed(Block& block, Tensor* first, Tensor* others) {
    const auto rank = static_cast<size_t>(others->shape().rank());
    Ints starts(rank, 0), ends = others->shape().dims(), strides(rank, 1);
    --ends[0];
    const TensorType type{others->dtype(), Shape(ends)};
    Tensor* rest = add(block, "slice", {others}, {{"starts", starts}, {"ends", ends}, {"strides", strides}}, type);
    return add(block, "concat", {first, rest}, {{"axis", int64_t{0}}}, others->type);
  }

  void keep(Block& block, const Operation& print, PrintState& state) {
    PrintState::Kept& own = state.kept.at(&print);
    state.count = add(block, "addition", {state.count, filled(block, count_type, 1)}, {}, count_type);
    own.numbers = pushed(block, state.count, own.numbers);
    if (!own.values) return;
    Dims one = own.values->shape().dims();
    one[0] = 1;
    Tensor* value = add(block, "expand_dims", {print.output()}, {{"axes", Ints{0}}}, {own.values->dtype(), Shape(one)});
    own.values = pushed(block, value, own.values);
  }

  std::vector<Tensor*> arguments(Block& block, const std::vector<Tensor*>& like) {
    std::vector<Tensor*> made;
    for (const Tensor* tensor : like)
      made.push_back(
          graph_.create_unchecked(block, definition_of("argument"), {}, {{"type", tensor->type}}, {}, {tensor->type})
              ->output());
    return made;
  }

  // Return the state after the block has run.
  std::vector<Tensor*> through(Block& block, PrintState state, const std::vector<const Operation*>& prints) {
    walk(block, state);
    return state.of(prints);
  }

  void carry(Operation& operation, const std::vector<const Operation*>& prints, PrintState& state) {
    const std::vector<Tensor*> now = state.of(prints);
    size_t result = operation.outputs.size();
    PrintState inner = state;
    if (operation.is("if")) {
      for (auto& block : operation.blocks)
        insert_values(block->results, block->results.size(), through(*block, state, prints));
    } else if (operation.is("for")) {  // The operands of the loop end with the values that start as zero.
      Block& body = *operation.blocks[0];
      result = operation.inputs.size() - 3;
      const std::vector<Tensor*> given = arguments(body, now);
      inner.set(prints, given);
      insert_values(body.arguments, 1 + result, given);
      insert_values(body.results, result, through(body, inner, prints));
      insert_values(operation.inputs, operation.inputs.size(), now);
    } else {
      Block &before = *operation.blocks[0], &after = *operation.blocks[1];
      const size_t first = operation.inputs.size();
      const std::vector<Tensor*> around = arguments(before, now), between = arguments(after, now);
      inner.set(prints, around);
      insert_values(before.arguments, first, around);
      insert_values(before.results, before.results.size(), through(before, inner, prints));
      inner.set(prints, between);
      insert_values(after.arguments, after.arguments.size(), between);
      insert_values(after.results, first, through(after, inner, prints));
      insert_values(operation.inputs, first, now);
    }
    std::vector<Tensor*> results;
    for (const Tensor* tensor : now) results.push_back(graph_.append_output(&operation, tensor->type));
    std::rotate(operation.outputs.begin() + static_cast<std::ptrdiff_t>(result),
                operation.outputs.end() - static_cast<std::ptrdiff_t>(now.size()), operation.outputs.end());
    for (size_t i = 0; i < operation.outputs.size(); ++i) operation.outputs[i]->index = static_cast<int>(i);
    state.set(prints, results);
  }

  Graph& graph_;
};

}  // namespace

std::vector<const Operation*> prints_within(const Operation& operation) {
  std::vector<const Operation*> found;
  collect_prints(operation, found);
  return found;
}

void carry_prints(compiler::Program& program) {
  const auto prints = [](const Operation& operation) { return operation.is("print"); };
  if (compiler::any_operation(program, prints)) PrintCarrier(*program.graph).root(program.graph->root());
}

}  // namespace mpsgraph::metal
