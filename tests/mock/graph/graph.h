// The operations of the mock's MPSGraph, and the functions with which families add them.
//
// An operation is a C++ function from values to values. The types of its results are found by applying it to sample
// operands: ones for floats, zeros for integers, and the values of constants, so that shape operands work. Thus shapes
// are not defined a second time, where the same mistake could be made. Operations run in a random order among those
// that data and control dependencies allow.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "graph/value.h"

namespace mock {

struct Block;
class Run;

using Evaluate = std::function<Values(const Values& inputs)>;
using EvaluateInRun = std::function<Values(Run& run, const Values& inputs)>;
struct ResultType {
  MPSDataType type;
  Dims dims;
};

// Initial data of a variable, which MPSGraph keeps.
class InitialData {
 public:
  explicit InitialData(NSData* data);
  ~InitialData();
  InitialData(const InitialData&) = delete;

 private:
  NSData* const data_;
};

// The values of a graph's variables, by operation.
struct Variables {
  Variables() = default;
  Variables(const Variables& other);

  std::mutex mutex;  // guards `values`
  std::map<const void*, Value> values;
  std::map<const void*, std::shared_ptr<const InitialData>> initial;
};

// The values during one run of a graph, or during one execution of a block within a run.
class Run {
 public:
  explicit Run(Variables& variables) : variables(variables) {}
  Run(Run& outer, const Block& block) : variables(outer.variables), outer_(&outer), block_(&block) {}

  Variables& variables;
  void give(MPSGraphTensor* tensor, Value value);  // for feeds and block arguments
  Value value_of(MPSGraphTensor* tensor);
  void perform(MPSGraphOperation* operation);
  // Return a block's results for the given arguments.
  Values block_results(const Block& block, const Values& arguments);

 private:
  Run& owner_of(MPSGraphOperation* operation);
  void perform_one(MPSGraphOperation* operation);
  Run* outer_ = nullptr;
  const Block* block_ = nullptr;
  std::map<void*, Values> done_;  // by operation
  std::map<void*, Value> given_;  // by tensor
};

// A control-flow block. Operations record the block that was current when they were added.
struct Block {
  Block* parent = nullptr;
  std::vector<MPSGraphTensor*> arguments, results;
};

}  // namespace mock

@interface MPSGraph () {
 @package
  std::mutex encoding;  // held by the thread that encodes
  NSMutableArray<MPSGraphOperation*>* operations;
  NSMutableArray<MPSGraphTensor*>* placeholders;
  NSMutableArray<MPSGraphOperation*>* pending_dependencies;
  mock::Block* current;  // null outside of blocks
  std::shared_ptr<mock::Variables> variables;
  std::deque<std::vector<const void*>> compiled;  // keys of the compiled programs, oldest first; guarded by `encoding`
}
@end

@interface MPSGraphTensor () {
 @package
  __weak MPSGraphOperation* producer;
  size_t index;
  mock::ResultType result;
}
@end

@interface MPSGraphOperation () {
 @package
  __weak MPSGraph* owner;
  NSString* kind;
  NSString* given_name;
  NSArray<MPSGraphTensor*>* inputs;
  NSArray<MPSGraphTensor*>* outputs;
  NSArray<MPSGraphOperation*>* dependencies;
  mock::Block* block;  // the block to which it was added
  mock::EvaluateInRun evaluate;
  std::shared_ptr<const mock::Value> constant;  // null if computed
}
@end

namespace mock {

// Add an operation with explicit result types, whose evaluation has access to the run.
MPSGraphOperation* add_operation(MPSGraph* graph, NSString* kind, NSString* name,
                                 const std::vector<MPSGraphTensor*>& inputs, std::vector<ResultType> results,
                                 EvaluateInRun evaluate);
// Add an operation whose result types are found by applying `evaluate`. Used by most families.
NSArray<MPSGraphTensor*>* add(MPSGraph* graph, NSString* kind, NSString* name,
                              const std::vector<MPSGraphTensor*>& inputs, Evaluate evaluate);
MPSGraphTensor* add_one(MPSGraph* graph, NSString* kind, NSString* name, const std::vector<MPSGraphTensor*>& inputs,
                        std::function<Value(const Values& inputs)> evaluate);

// Create a block from the operations that `build` adds; `build` returns the results.
std::shared_ptr<Block> build_block(MPSGraph* graph, const std::vector<ResultType>& arguments,
                                   const std::function<NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>*)>& build);
std::vector<ResultType> types_of(NSArray<MPSGraphTensor*>* tensors);

// Convert 32- and 64-bit integers as gathers and scatters do on a Mac.
Value through_float32(const Value& value);

// Return the values of the targets, after running the operations in `also`.
Values run_graph(Variables& variables, const std::map<void*, Value>& feeds, NSArray<MPSGraphTensor*>* targets,
                 NSArray<MPSGraphOperation*>* also);

// The factor by which a sum, mean, or variance is wrong. On a Mac with macOS 26 or newer, those of millions of numbers
// are wrong now and then; in the mock, those of 2^20 numbers or more are wrong in every run, by a changing factor.
double long_sum_error(int64_t terms);

Value load(MPSGraphTensorData* data);
void store(const Value& value, MPSGraphTensorData* data);

}  // namespace mock

// Return the operation that produces a tensor if it is of the given kind, or nil.
inline MPSGraphOperation* made_by(MPSGraphTensor* tensor, NSString* kind) {
  MPSGraphOperation* operation = tensor->producer;
  return [operation->kind isEqualToString:kind] ? operation : nil;
}

@interface MPSGraphExecutable () {
 @package
  MPSGraph* graph;
  MPSGraphTensorShapedTypeDictionary* types;
  NSArray<MPSGraphTensor*>*inputs, *targets;
  NSArray<MPSGraphOperation*>* effects;
  std::shared_ptr<mock::Variables> variables;  // those of the graph, or a copy: see mock_executables_share_variables
}
+ (instancetype)executableOfGraph:(MPSGraph*)graph
                            feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                          targets:(NSArray<MPSGraphTensor*>*)targets
                       operations:(NSArray<MPSGraphOperation*>*)operations;
@end
