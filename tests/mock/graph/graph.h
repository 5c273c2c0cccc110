// How the mock's MPSGraph is made of operations, and how families add theirs.
//
// An operation is a C++ function from values to values. The types of its results are found by applying it once to
// ones (numbers) and zeros (integers), or to the values of operands that are constants: so shape operands work, and so
// there is no second statement of shapes that could agree with the first by mistake. Operations run in an order that is
// drawn at random among those that inputs and control dependencies allow.
#pragma once

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

// The values of one run of a graph, or of one execution of a block within a run.
class Run {
 public:
  explicit Run(MPSGraph* graph) : graph(graph) {}
  Run(Run& outer, const Block& block) : graph(outer.graph), outer_(&outer), block_(&block) {}

  MPSGraph* const graph;
  void give(MPSGraphTensor* tensor, Value value);  // feeds, and arguments of blocks
  Value value_of(MPSGraphTensor* tensor);
  void perform(MPSGraphOperation* operation);
  // A block's results, with its arguments given.
  Values block_results(const Block& block, const Values& arguments);

 private:
  Run& owner_of(MPSGraphOperation* operation);
  void perform_one(MPSGraphOperation* operation);
  Run* outer_ = nullptr;
  const Block* block_ = nullptr;
  std::map<void*, Values> done_;  // by operation
  std::map<void*, Value> given_;  // by tensor
};

// Operations that were added while it was the current block, and its arguments and results.
struct Block {
  Block* parent = nullptr;
  std::vector<MPSGraphTensor*> arguments, results;
};

}  // namespace mock

@interface MPSGraph () {
 @package
  std::mutex encoding;  // one thread at a time
  NSMutableArray<MPSGraphOperation*>* operations;
  NSMutableArray<MPSGraphTensor*>* placeholders;
  NSMutableArray<MPSGraphOperation*>* pending_dependencies;
  mock::Block* current;  // null: the graph itself
  std::map<const void*, mock::Value> variables;  // by operation, guarded by variables_mutex
  std::mutex variables_mutex;
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
  mock::Block* block;  // that it was added in
  mock::EvaluateInRun evaluate;
  std::shared_ptr<const mock::Value> constant;  // null: computed
}
@end

namespace mock {

// The general form: result types stated, evaluation within the run.
MPSGraphOperation* add_operation(MPSGraph* graph, NSString* kind, NSString* name,
                                 const std::vector<MPSGraphTensor*>& inputs, std::vector<ResultType> results,
                                 EvaluateInRun evaluate);
// What families use: types by applying the function.
NSArray<MPSGraphTensor*>* add(MPSGraph* graph, NSString* kind, NSString* name,
                              const std::vector<MPSGraphTensor*>& inputs, Evaluate evaluate);
MPSGraphTensor* add_one(MPSGraph* graph, NSString* kind, NSString* name, const std::vector<MPSGraphTensor*>& inputs,
                        std::function<Value(const Values& inputs)> evaluate);

// A block's operations, added by `build`, which gives the results.
std::shared_ptr<Block> build_block(MPSGraph* graph, const std::vector<ResultType>& arguments,
                                   const std::function<NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>*)>& build);
std::vector<ResultType> types_of(NSArray<MPSGraphTensor*>* tensors);

// What gathers and scatters make of 32- and 64-bit integers.
Value through_float32(const Value& value);

// The values of targets, after the operations in `also`.
Values run_graph(MPSGraph* graph, const std::map<void*, Value>& feeds, NSArray<MPSGraphTensor*>* targets,
                 NSArray<MPSGraphOperation*>* also);

Value load(MPSGraphTensorData* data);
void store(const Value& value, MPSGraphTensorData* data);

}  // namespace mock

@interface MPSGraphExecutable () {
 @package
  MPSGraph* graph;
  MPSGraphTensorShapedTypeDictionary* types;
  NSArray<MPSGraphTensor*>*inputs, *targets;
  NSArray<MPSGraphOperation*>* effects;
}
+ (instancetype)executableOfGraph:(MPSGraph*)graph
                            feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                          targets:(NSArray<MPSGraphTensor*>*)targets
                       operations:(NSArray<MPSGraphOperation*>*)operations;
@end
