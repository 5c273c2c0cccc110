// Replaces check_indices inside blocks with find_outside. The result of find_outside is passed out of branches and
// around loops, and reported afterwards.
//
//   if(%p) { check_indices(%i); ... }   ->   %found = if(%p) { %f = find_outside(%i); ...; yield %f } { yield 0 }
//                                            report_outside(%found)
//
// Only the first out-of-range index is kept. Loops start with zeros, which mean that no index was out of range.
#include "backends/metal/block_checks.h"

#include <algorithm>

#include "compiler/passes.h"
#include "core/definition.h"

namespace mpsgraph::metal {
namespace {

const TensorType found_type{DType::int64, Shape(Dims{3})};

bool holds_checks(const Block& block) {
  return std::ranges::any_of(block.operations, [](const auto& operation) {
    return operation->is("check_indices") ||
           std::ranges::any_of(operation->blocks, [](const auto& inner) { return holds_checks(*inner); });
  });
}

bool carries(const Operation& operation) {
  return std::ranges::any_of(operation.blocks, [](const auto& block) { return holds_checks(*block); });
}

class Carrier {
 public:
  explicit Carrier(Graph& graph) : graph_(graph) {}

  // Add a result to the operation: the first out-of-range index that its blocks find.
  Tensor* carry(Operation& operation) {
    if (operation.is("if")) {
      for (auto& block : operation.blocks) {
        Tensor* found = first_found(*block, nullptr);
        block->results.push_back(found ? found : zeros(*block, 3));
      }
    } else {
      for (auto& block : operation.blocks) {
        Tensor* before =
            graph_.create_unchecked(*block, definition_of("argument"), {}, {{"type", found_type}}, {}, {found_type})
                ->output();
        block->arguments.push_back(before);
        block->results.push_back(first_found(*block, before));
      }
      operation.attributes.set("from_zero", operation.attributes.integer("from_zero") + 1);
    }
    return graph_.append_output(&operation, found_type);
  }

 private:
  Tensor* add(Block& block, Kind kind, std::vector<Tensor*> inputs, Attributes attributes, const TensorType& type) {
    const OperationDefinition& definition = definition_of(kind);
    attributes = complete_attributes(definition, std::move(attributes));
    return graph_.create_unchecked(block, definition, std::move(inputs), std::move(attributes), {}, {type})->output();
  }
  Tensor* zeros(Block& block, int64_t count) {
    const TensorType type{DType::int64, Shape(Dims{count})};
    return add(block, "constant", {}, {{"value", compiler::integer_constant(type, Ints(count, 0))}}, type);
  }

  // Remove the index checks from the block. Return the first out-of-range index: `found`, if an operation before the
  // block found one, otherwise the first one that the block finds. Returns null if the block checks nothing and `found`
  // is null.
  Tensor* first_found(Block& block, Tensor* found) {
    auto before = std::move(block.operations);
    block.operations.clear();
    for (auto& operation : before) {
      if (!operation->is("check_indices")) {
        block.operations.push_back(std::move(operation));
        Operation& kept = *block.operations.back();
        if (carries(kept)) found = either(block, found, carry(kept));
        continue;
      }
      Attributes attributes = operation->attributes;
      attributes.set("number", ++number_);
      Tensor* own = add(block, "find_outside", operation->inputs, std::move(attributes), found_type);
      own->operation->location = operation->location;
      found = either(block, found, own);
      removed_.push_back(std::move(operation));
    }
    return found;
  }

  Tensor* either(Block& block, Tensor* first, Tensor* second) {
    if (!first) return second;
    const TensorType one{DType::int64, Shape(Dims{1})}, flag{DType::boolean, Shape(Dims{1})};
    Tensor* number = add(block, "slice", {first}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"strides", Ints{1}}}, one);
    Tensor* is_none = add(block, "equal", {number, zeros(block, 1)}, {}, flag);
    return add(block, "select", {is_none, second, first}, {}, found_type);
  }

  Graph& graph_;
  int64_t number_ = 0;
  // operations removed from the block are kept here, so that their names are not reused
  std::vector<std::unique_ptr<Operation>> removed_;
};

}  // namespace

void carry_checks(compiler::Program& program) {
  Block& root = program.graph->root();
  Carrier carrier(*program.graph);
  for (size_t i = 0; i < root.operations.size(); ++i) {
    if (!carries(*root.operations[i])) continue;
    Tensor* found = carrier.carry(*root.operations[i]);
    const Operation* owner = found->operation;
    Operation* report = program.graph->create_unchecked(root, definition_of("report_outside"), {found}, {}, {}, {});
    report->location = owner->location;
    std::rotate(root.operations.begin() + static_cast<std::ptrdiff_t>(i) + 1, root.operations.end() - 1,
                root.operations.end());
  }
}

}  // namespace mpsgraph::metal
