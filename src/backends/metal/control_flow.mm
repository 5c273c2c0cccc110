// Lowers if, while, and for to MPSGraph's blocks, and the histories of values that loops store for their derivatives.
//
// MPSGraph has no tensors without elements, so such tensors are not passed into or out of a block. If a block would
// then have no results, it returns an unused number, so that other operations can depend on it.
#include <algorithm>

#include "backends/metal/lowering.h"
#include "core/known_values.h"

namespace mpsgraph::metal {
namespace {

using Tensors = std::vector<Tensor*>;

// Values that are passed into or out of a control-flow block. In GraphTensors, values without elements are nil.
class Border {
 public:
  Border(Lowering& l, const Tensors& tensors) : l_(l) {
    for (const Tensor* tensor : tensors) types_.push_back(l.program.lowered_type(tensor));
  }

  NSMutableArray<MPSGraphTensor*>* pack(const GraphTensors& values) const {
    NSMutableArray<MPSGraphTensor*>* packed = [NSMutableArray array];
    for (size_t i = 0; i < types_.size(); ++i)
      if (crosses(i)) [packed addObject:values[i] ? values[i] : l_.filled(0, types_[i])];
    if (packed.count == 0) [packed addObject:values.size() > types_.size() ? values.back() : l_.ints({0})];
    return packed;
  }
  GraphTensors unpack(NSArray<MPSGraphTensor*>* packed) const {
    GraphTensors values;
    NSUInteger next = 0;
    for (size_t i = 0; i < types_.size(); ++i) values.push_back(crosses(i) ? packed[next++] : nil);
    return values;
  }
  NSMutableArray<MPSGraphTensor*>* zeros() const { return pack(GraphTensors(types_.size())); }

 private:
  bool crosses(size_t i) const { return types_[i].shape.elements() > 0; }

  Lowering& l_;
  std::vector<TensorType> types_;
};

// Keeps the exception of a block, because no exception may propagate through Apple's frames. A block that fails returns
// zeros, and its exception is rethrown afterwards.
class Failure {
 public:
  template <class Build>
  NSMutableArray<MPSGraphTensor*>* build(const Border& results, const Build& build) {
    try {
      return build();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
    return results.zeros();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

Tensors outputs_of(const Operation& operation) {
  Tensors outputs;
  for (const auto& output : operation.outputs) outputs.push_back(output.get());
  return outputs;
}

// Unpack the results of the control-flow operation, and register the MPSGraph operation that represents it in control
// dependencies.
GraphTensors given(Lowering& l, const Border& results, NSArray<MPSGraphTensor*>* packed) {
  l.program.stands_for(l.operation, packed[0].operation);
  return results.unpack(packed);
}

// Return a loop's initial values: the operands from `first` on, followed by zeros for the values that start at zero.
NSArray<MPSGraphTensor*>* initial_values(Lowering& l, size_t first, const Border& values, size_t count) {
  GraphTensors initial(l.inputs.begin() + static_cast<std::ptrdiff_t>(first), l.inputs.end());
  initial.resize(count);
  return values.pack(initial);
}

// --- if --------------------------------------------------------------------------------------------------------------

GraphTensors lower_if(Lowering& l) {
  const Border results(l, outputs_of(l.operation));
  Failure failure;
  Failure* const failed = &failure;
  const Border* const border = &results;
  ProgramLowering* const program = &l.program;
  const Block *const then = l.operation.blocks[0].get(), *const otherwise = l.operation.blocks[1].get();
  NSArray<MPSGraphTensor*>* packed = [l.graph() ifWithPredicateTensor:l.input()
      thenBlock:^{ return failed->build(*border, [&] { return border->pack(program->lower_block(*then, {})); }); }
      elseBlock:^{ return failed->build(*border, [&] { return border->pack(program->lower_block(*otherwise, {})); }); }
      name:l.name()];
  failure.rethrow();
  return given(l, results, packed);
}

// --- while -----------------------------------------------------------------------------------------------------------

GraphTensors lower_while(Lowering& l) {
  const Block &before = *l.operation.blocks[0], &after = *l.operation.blocks[1];
  const Border values(l, before.arguments), results(l, after.arguments);
  Failure failure;
  Failure* const failed = &failure;
  ProgramLowering* const program = &l.program;
  const Block *const asking = &before, *const going = &after;
  const Border *const around = &values, *const between = &results;
  MPSGraphTensor* never = l.scalar(0, DType::boolean);
  NSArray<MPSGraphTensor*>* packed =
      [l.graph() whileWithInitialInputs:initial_values(l, 0, values, before.arguments.size())
          before:^MPSGraphTensor*(NSArray<MPSGraphTensor*>* given, NSMutableArray<MPSGraphTensor*>* found) {
            MPSGraphTensor* condition = never;
            [found addObjectsFromArray:failed->build(*between, [&] {
              GraphTensors all = program->lower_block(*asking, around->unpack(given));
              condition = all[0];
              all.erase(all.begin());
              return between->pack(all);
            })];
            return condition;
          }
          after:^NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>* given) {
            return failed->build(*around,
                                 [&] { return around->pack(program->lower_block(*going, between->unpack(given))); });
          }
          name:l.name()];
  failure.rethrow();
  return given(l, results, packed);
}

// --- for -------------------------------------------------------------------------------------------------------------

// Return the body's results, for an index of shape (1) and the loop-carried values.
NSMutableArray<MPSGraphTensor*>* body_of(ProgramLowering& program, const Block& body, const Border& values,
                                         MPSGraphTensor* index, NSArray<MPSGraphTensor*>* given) {
  GraphTensors arguments = values.unpack(given);
  arguments.insert(arguments.begin(), index);
  return values.pack(program.lower_block(body, arguments));
}

// MPSGraph's for loop only counts up. A loop that counts down uses the complement ~i = -1 - i of its index, because ~i,
// unlike -i, exists for all integers.
NSArray<MPSGraphTensor*>* loop_by(Lowering& l, int64_t step, const Border& values, NSArray<MPSGraphTensor*>* initial,
                                  Failure* failed) {
  const bool down = step < 0;
  const auto bound = [&](size_t i) { return down ? [l.graph() bitwiseNOTWithTensor:l.input(i) name:nil] : l.input(i); };
  Lowering* const lowering = &l;
  const Border* const around = &values;
  return [l.graph()
      forLoopWithLowerBound:l.bound(bound(0))
                 upperBound:l.bound(bound(1))
                       step:l.bound_of(down ? -step : step)
       initialBodyArguments:initial
                       body:^NSArray<MPSGraphTensor*>*(MPSGraphTensor* given_index, NSArray<MPSGraphTensor*>* given) {
                         return failed->build(*around, [&] {
                           MPSGraphTensor* index = lowering->reshape(lowering->cast(given_index, DType::int32), {});
                           if (down) index = [lowering->graph() bitwiseNOTWithTensor:index name:nil];
                           return body_of(lowering->program, *lowering->operation.blocks[0], *around, index, given);
                         });
                       }
                       name:l.name()];
}

// If the step, and thus the direction, is only known at run time, the loop becomes a `while` with a 64-bit index, which
// cannot overflow. A step of 0 is an error on the CPU device. A GPU cannot raise errors, so here the loop runs no
// iterations.
NSArray<MPSGraphTensor*>* loop_by_unknown_step(Lowering& l, const Border& values, NSArray<MPSGraphTensor*>* initial,
                                               Failure* failed) {
  MPSGraph* graph = l.graph();
  MPSGraphTensor *lower = l.cast(l.input(0), DType::int64), *upper = l.cast(l.input(1), DType::int64),
                 *step = l.cast(l.input(2), DType::int64), *zero = l.ints({0}, DType::int64);
  MPSGraphTensor* up = [graph greaterThanWithPrimaryTensor:step secondaryTensor:zero name:nil];
  MPSGraphTensor* down = [graph lessThanWithPrimaryTensor:step secondaryTensor:zero name:nil];
  Lowering* const lowering = &l;
  const Border* const around = &values;
  NSMutableArray<MPSGraphTensor*>* first = [NSMutableArray arrayWithObject:lower];
  [first addObjectsFromArray:initial];
  NSArray<MPSGraphTensor*>* last = [graph whileWithInitialInputs:first
      before:^MPSGraphTensor*(NSArray<MPSGraphTensor*>* given, NSMutableArray<MPSGraphTensor*>* found) {
        [found addObjectsFromArray:given];
        MPSGraphTensor* below = [graph lessThanWithPrimaryTensor:given[0] secondaryTensor:upper name:nil];
        MPSGraphTensor* above = [graph greaterThanWithPrimaryTensor:given[0] secondaryTensor:upper name:nil];
        return [graph logicalORWithPrimaryTensor:[graph logicalANDWithPrimaryTensor:up secondaryTensor:below name:nil]
                                 secondaryTensor:[graph logicalANDWithPrimaryTensor:down secondaryTensor:above name:nil]
                                            name:nil];
      }
      after:^NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>* given) {
        NSMutableArray<MPSGraphTensor*>* next = failed->build(*around, [&] {
          NSMutableArray<MPSGraphTensor*>* carried = [given mutableCopy];
          [carried removeObjectAtIndex:0];
          return body_of(lowering->program, *lowering->operation.blocks[0], *around,
                         lowering->cast(given[0], DType::int32), carried);
        });
        [next insertObject:[graph additionWithPrimaryTensor:given[0] secondaryTensor:step name:nil] atIndex:0];
        return next;
      }
      name:l.name()];
  NSMutableArray<MPSGraphTensor*>* results = [last mutableCopy];
  [results removeObjectAtIndex:0];
  return results;
}

GraphTensors lower_for(Lowering& l) {
  const Block& body = *l.operation.blocks[0];
  const Border values(l, {body.arguments.begin() + 1, body.arguments.end()});
  NSArray<MPSGraphTensor*>* initial = initial_values(l, 3, values, body.arguments.size() - 1);
  const auto step = constant_value(l.operation.input(2));
  if (step && step->front() == 0)
    l.unsupported("the step of a for loop must not be 0, got 0; the loop would never end");
  Failure failure;
  NSArray<MPSGraphTensor*>* packed =
      step ? loop_by(l, step->front(), values, initial, &failure) : loop_by_unknown_step(l, values, initial, &failure);
  failure.rethrow();
  return given(l, values, packed);
}

// --- histories -------------------------------------------------------------------------------------------------------
// A history is the stack of values that the iterations of a loop push for the loop's derivative. It is a tensor whose
// first axis has room for all values that it will ever hold: the latest value first, zeros after the last. An empty
// history therefore yields zeros, and two histories are added by adding the tensors. Pushing a value shifts all other
// values by one. The shift copies the tensor, but because MPSGraph's tensors are immutable, every other way to write a
// value would copy the tensor, too.

MPSGraphTensor* rows(Lowering& l, MPSGraphTensor* history, int64_t first, int64_t count) {
  return [l.graph() sliceTensor:history dimension:0 start:first length:count name:nil];
}

MPSGraphTensor* appended(Lowering& l, MPSGraphTensor* first, MPSGraphTensor* second) {
  return [l.graph() concatTensors:@[ first, second ] dimension:0 name:nil];
}

Dims with_first(int64_t size, Dims dims) {
  dims.insert(dims.begin(), size);
  return dims;
}

// Whether the history's values have no elements.
bool holds_nothing(const Lowering& l) { return element_count(l.dims()) == 0; }

GraphTensors lower_push(Lowering& l) {
  if (holds_nothing(l)) return {nil};
  const Dims dims = l.program.lowered_type(l.operation.input(0)).shape.dims();
  const Dims value_dims(dims.begin() + 1, dims.end());
  MPSGraphTensor* value = l.reshape(l.input(1), with_first(1, value_dims));
  if (dims[0] == 1) return {value};
  return {appended(l, value, rows(l, l.input(0), 0, dims[0] - 1))};
}

GraphTensors lower_pop(Lowering& l) {
  if (holds_nothing(l)) return {nil, nil};
  const TensorType type = l.program.lowered_type(l.operation.input(0));
  const Dims& dims = type.shape.dims();
  const Dims value_dims(dims.begin() + 1, dims.end());
  MPSGraphTensor* nothing = l.filled(0, {type.dtype, Shape(with_first(1, value_dims))});
  MPSGraphTensor* value = l.reshape(rows(l, l.input(), 0, 1), value_dims);
  if (dims[0] == 1) return {nothing, value};
  return {appended(l, rows(l, l.input(), 1, dims[0] - 1), nothing), value};
}

GraphTensors lower_empty(Lowering& l) {
  if (holds_nothing(l)) return {nil};
  return {l.filled(0, l.program.lowered_type(l.operation.outputs[0].get()))};
}

GraphTensors lower_history_addition(Lowering& l) {
  if (holds_nothing(l)) return {nil};
  return {[l.graph() additionWithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]};
}

}  // namespace

const Lowerings control_flow_lowerings("control_flow", [] {
  define_lowering("if", lower_if);
  define_lowering("while", lower_while);
  define_lowering("for", lower_for);
  define_lowering("history_push", lower_push);
  define_lowering("history_pop", lower_pop);
  define_lowering("history_empty", lower_empty);
  define_lowering("history_addition", lower_history_addition);
});

}  // namespace mpsgraph::metal
