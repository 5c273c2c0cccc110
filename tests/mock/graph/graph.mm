// Adding operations to a graph, and running them in a random valid order.
#include "graph/graph.h"

#include <algorithm>
#include <random>

#include "graph/breakage.h"
#include "metal/counts.h"
#include "metal/mock_metal.h"

namespace mock {

// --- adding ----------------------------------------------------------------------------------------------------------

namespace {

// Raise if a Mac would abort the process or compute wrong results for tensors of this size.
void require_size(NSString* kind, const ResultType& type) {
  double elements = 1;
  NSString* rule = nil;
  for (const int64_t size : type.dims) {
    if (size > INT32_MAX) rule = @"dimensions must not exceed INT_MAX";
    elements *= static_cast<double>(size);
  }
  if (!rule && elements > static_cast<double>(INT32_MAX)) rule = @"a tensor must have fewer than 2^31 elements";
  if (!rule && elements * static_cast<double>(bytes_of(type.type, 8)) > 8 * 4294967296.0)
    rule = @"a tensor must not exceed 2^32 bytes";
  if (!rule) return;
  break_size();
  misuse(@"%@: %@, got shape %@", kind, rule, text_of(type.dims));
}

}  // namespace

MPSGraphOperation* add_operation(MPSGraph* graph, NSString* kind, NSString* name,
                                 const std::vector<MPSGraphTensor*>& inputs, std::vector<ResultType> results,
                                 EvaluateInRun evaluate) {
  count_operation(kind.UTF8String);
  MPSGraphOperation* operation = [[MPSGraphOperation alloc] init];
  NSMutableArray<MPSGraphTensor*>*in = [NSMutableArray array], *out = [NSMutableArray array];
  for (MPSGraphTensor* input : inputs) {
    if (!input) misuse(@"%@: an input must not be nil", kind);
    if (input->producer->owner != graph) misuse(@"%@: an input must not belong to another graph", kind);
    [in addObject:input];
  }
  for (const ResultType& result : results) require_size(kind, result);
  break_building(kind, results);
  for (size_t i = 0; i < results.size(); ++i) {
    MPSGraphTensor* tensor = [[MPSGraphTensor alloc] init];
    tensor->producer = operation;
    tensor->index = i;
    tensor->result = results[i];
    [out addObject:tensor];
  }
  operation->owner = graph;
  operation->kind = kind;
  operation->given_name = name ? name : kind;
  operation->inputs = in;
  operation->outputs = out;
  operation->dependencies = [graph->pending_dependencies copy];
  operation->block = graph->current;
  operation->evaluate = std::move(evaluate);
  [graph->operations addObject:operation];
  return operation;
}

namespace {

Value example(MPSGraphTensor* tensor) {
  MPSGraphOperation* producer = tensor->producer;
  if (producer->constant) return *producer->constant;
  Value value(tensor->result.type, tensor->result.dims);
  if (!is_whole(value.type))
    for (int64_t i = 0; i < value.count(); ++i) value.set(i, 1.0);
  return value;
}

}  // namespace

NSArray<MPSGraphTensor*>* add(MPSGraph* graph, NSString* kind, NSString* name,
                              const std::vector<MPSGraphTensor*>& inputs, Evaluate evaluate) {
  Values examples;
  for (MPSGraphTensor* input : inputs) {
    if (!input) misuse(@"%@: an input must not be nil", kind);
    examples.push_back(example(input));
    if (examples.back().type == MPSDataTypeUInt4 && ![kind hasPrefix:@"dequantize"] &&
        ![kind isEqualToString:@"reinterpretCast"])
      misuse(@"%@: uint4 is not known to work", kind);
  }
  std::vector<ResultType> results;
  for (const Value& value : evaluate(examples)) results.push_back({value.type, value.dims});
  return add_operation(graph, kind, name, inputs, std::move(results),
                       [evaluate](Run&, const Values& values) { return evaluate(values); })
      ->outputs;
}

MPSGraphTensor* add_one(MPSGraph* graph, NSString* kind, NSString* name, const std::vector<MPSGraphTensor*>& inputs,
                        std::function<Value(const Values&)> evaluate) {
  return add(graph, kind, name, inputs, [evaluate](const Values& values) { return Values{evaluate(values)}; })[0];
}

std::vector<ResultType> types_of(NSArray<MPSGraphTensor*>* tensors) {
  std::vector<ResultType> types;
  for (MPSGraphTensor* tensor in tensors) types.push_back(tensor->result);
  return types;
}

std::shared_ptr<Block> build_block(MPSGraph* graph, const std::vector<ResultType>& arguments,
                                   const std::function<NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>*)>& build) {
  auto block = std::make_shared<Block>();
  block->parent = graph->current;
  graph->current = block.get();
  NSMutableArray<MPSGraphOperation*>* outer = graph->pending_dependencies;
  graph->pending_dependencies = [NSMutableArray array];
  NSMutableArray<MPSGraphTensor*>* given = [NSMutableArray array];
  for (const ResultType& type : arguments) {
    MPSGraphOperation* argument = add_operation(graph, @"argument", nil, {}, {type}, nullptr);
    [given addObject:argument->outputs[0]];
    block->arguments.push_back(argument->outputs[0]);
  }
  NSArray<MPSGraphTensor*>* results = nil;
  @try {
    results = build(given);
  } @catch (NSException* exception) {
    graph->current = block->parent;
    graph->pending_dependencies = outer;
    @throw exception;
  }
  graph->current = block->parent;
  graph->pending_dependencies = outer;
  for (MPSGraphTensor* result in results) block->results.push_back(result);
  return block;
}

// --- running ---------------------------------------------------------------------------------------------------------

namespace {

std::vector<MPSGraphOperation*> predecessors(MPSGraphOperation* operation) {
  std::vector<MPSGraphOperation*> result;
  for (MPSGraphTensor* input in operation->inputs) result.push_back(input->producer);
  for (MPSGraphOperation* dependency in operation->dependencies) result.push_back(dependency);
  return result;
}

template <class T>
void shuffle(std::vector<T>& items) {
  static thread_local std::minstd_rand random(std::random_device{}());
  std::shuffle(items.begin(), items.end(), random);
}

}  // namespace

void Run::give(MPSGraphTensor* tensor, Value value) { given_[(__bridge void*)tensor] = std::move(value); }

// Return the run of the block that contains the operation: this run or an enclosing one.
Run& Run::owner_of(MPSGraphOperation* operation) {
  Run* run = this;
  while (run && run->block_ != operation->block) run = run->outer_;
  if (!run) misuse(@"operation %@ is used outside of its block", operation->given_name);
  return *run;
}

void Run::perform(MPSGraphOperation* wanted) {
  std::vector<MPSGraphOperation*> stack{wanted};
  while (!stack.empty()) {
    MPSGraphOperation* operation = stack.back();
    Run& owner = owner_of(operation);
    if (owner.done_.contains((__bridge void*)operation)) {
      stack.pop_back();
      continue;
    }
    std::vector<MPSGraphOperation*> missing;
    for (MPSGraphOperation* before : predecessors(operation))
      if (!owner_of(before).done_.contains((__bridge void*)before)) missing.push_back(before);
    if (missing.empty()) {
      owner.perform_one(operation);
      stack.pop_back();
    }
    shuffle(missing);
    stack.insert(stack.end(), missing.begin(), missing.end());
  }
}

void Run::perform_one(MPSGraphOperation* operation) {
  Values results;
  if (operation->evaluate) {
    Values inputs;
    for (MPSGraphTensor* input in operation->inputs) inputs.push_back(value_of(input));
    if (!break_evaluation(operation->kind)) results = operation->evaluate(*this, inputs);
    break_results(operation->kind, inputs, results);
  } else {  // placeholders and arguments
    const auto found = given_.find((__bridge void*)operation->outputs[0]);
    if (found == given_.end()) misuse(@"%@ %@ has no value; feed it", operation->kind, operation->given_name);
    results.push_back(found->second);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultType& stated = operation->outputs[i]->result;
    if (results[i].type != stated.type || results[i].dims != stated.dims)
      misuse(@"%@ must return %s %@, got %s %@", operation->kind, type_name(stated.type), text_of(stated.dims),
             type_name(results[i].type), text_of(results[i].dims));
  }
  done_.emplace((__bridge void*)operation, std::move(results));
}

Value Run::value_of(MPSGraphTensor* tensor) {
  MPSGraphOperation* producer = tensor->producer;
  if (!producer) misuse(@"a tensor was used after its graph had been deallocated");
  perform(producer);
  return owner_of(producer).done_.at((__bridge void*)producer)[tensor->index];
}

Values Run::block_results(const Block& block, const Values& arguments) {
  Run inner(*this, block);
  for (size_t i = 0; i < arguments.size(); ++i) inner.give(block.arguments[i], arguments[i]);
  Values results;
  for (MPSGraphTensor* result : block.results) results.push_back(inner.value_of(result));
  return results;
}

Values run_graph(Variables& variables, const std::map<void*, Value>& feeds, NSArray<MPSGraphTensor*>* targets,
                 NSArray<MPSGraphOperation*>* also) {
  break_run();
  Run run(variables);
  for (const auto& [tensor, value] : feeds) run.give((__bridge MPSGraphTensor*)tensor, value);
  std::vector<MPSGraphOperation*> wanted;
  for (MPSGraphTensor* target in targets) wanted.push_back(target->producer);
  for (MPSGraphOperation* operation in also) wanted.push_back(operation);
  shuffle(wanted);
  for (MPSGraphOperation* operation : wanted) run.perform(operation);
  Values results;
  for (MPSGraphTensor* target in targets) results.push_back(run.value_of(target));
  return results;
}

}  // namespace mock

// --- classes ---------------------------------------------------------------------------------------------------------

@implementation MPSGraphObject
@end

@implementation MPSGraphTensor
- (instancetype)init {
  return [super init];
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
- (MPSShape*)shape {
  return mock::shape_of(result.dims);
}
- (MPSDataType)dataType {
  return result.type;
}
- (MPSGraphOperation*)operation {
  return producer;
}
- (NSString*)description {
  return [NSString stringWithFormat:@"%@ of %@", mock::text_of(result.dims), producer->given_name];
}
@end

@implementation MPSGraphOperation
- (instancetype)init {
  return [super init];
}
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
- (NSArray<MPSGraphTensor*>*)inputTensors {
  return inputs;
}
- (NSArray<MPSGraphTensor*>*)outputTensors {
  return outputs;
}
- (NSArray<MPSGraphOperation*>*)controlDependencies {
  return dependencies;
}
- (MPSGraph*)graph {
  return owner;
}
- (NSString*)name {
  return given_name;
}
@end

@implementation MPSGraph
+ (instancetype)new {
  return [[self alloc] init];
}
- (instancetype)init {
  if (!(self = [super init])) return nil;
  operations = [NSMutableArray array];
  placeholders = [NSMutableArray array];
  pending_dependencies = [NSMutableArray array];
  variables = std::make_shared<mock::Variables>();
  return self;
}
- (NSArray<MPSGraphTensor*>*)placeholderTensors {
  return [placeholders copy];
}
@end
