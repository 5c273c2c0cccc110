// if, while, and for with blocks. A branch that is not taken does not run, and a block is evaluated again in each
// iteration.
//
// Apple documents `for` over a half-open range with a positive step; `while` as before(values) -> condition and
// results, after(results) -> values; and `if` with the same number and types of results from both blocks. The mock is
// stricter: a condition is one bool, bounds are one int32 or int64 each, and loop values keep their shapes.
#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

void require_condition(NSString* kind, MPSGraphTensor* tensor) {
  if (!tensor) misuse(@"%@: the condition must not be nil", kind);
  if (tensor.dataType != MPSDataTypeBool || count_of(tensor->result.dims) != 1)
    misuse(@"%@: the condition must be one bool, got %s %@", kind, type_name(tensor.dataType),
           text_of(tensor->result.dims));
}

void require_bound(MPSGraphTensor* tensor) {
  const MPSDataType type = tensor.dataType;
  if ((type != MPSDataTypeInt32 && type != MPSDataTypeInt64) || count_of(tensor->result.dims) != 1)
    misuse(@"for: a bound must be one int32 or int64, got %s %@", type_name(type), text_of(tensor->result.dims));
  if (!tensor->result.dims.empty())
    misuse(@"for: a bound must have rank 0, as in all known callers, got shape %@", text_of(tensor->result.dims));
}

std::vector<ResultType> types_of(const std::vector<MPSGraphTensor*>& tensors) {
  std::vector<ResultType> types;
  for (MPSGraphTensor* tensor : tensors) types.push_back(tensor->result);
  return types;
}

void require_same(NSString* what, const std::vector<ResultType>& given, const std::vector<ResultType>& wanted) {
  if (given.size() != wanted.size()) misuse(@"%@: expected %lu values, got %lu", what, wanted.size(), given.size());
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].type != wanted[i].type || given[i].dims != wanted[i].dims)
      misuse(@"%@: value %lu must be %s %@, got %s %@", what, i, type_name(wanted[i].type), text_of(wanted[i].dims),
             type_name(given[i].type), text_of(given[i].dims));
}

std::vector<MPSGraphTensor*> listed(NSArray<MPSGraphTensor*>* tensors) {
  std::vector<MPSGraphTensor*> list;
  for (MPSGraphTensor* tensor in tensors) list.push_back(tensor);
  return list;
}

}  // namespace

@implementation MPSGraph (MockControlFlow)

- (NSArray<MPSGraphTensor*>*)ifWithPredicateTensor:(MPSGraphTensor*)predicate
                                         thenBlock:(MPSGraphIfThenElseBlock)then
                                         elseBlock:(MPSGraphIfThenElseBlock)otherwise
                                              name:(NSString*)name {
  require_condition(@"if", predicate);
  const auto taken = build_block(self, {}, [&](NSArray<MPSGraphTensor*>*) { return then(); });
  const auto left = build_block(self, {}, [&](NSArray<MPSGraphTensor*>*) { return otherwise ? otherwise() : @[]; });
  const std::vector<ResultType> types = types_of(taken->results);
  require_same(@"if: the else block", types_of(left->results), types);
  return add_operation(
             self, @"if", name, {predicate}, types,
             [=](Run& run, const Values& in) { return run.block_results(in[0].truth(0) ? *taken : *left, {}); })
      ->outputs;
}

- (NSArray<MPSGraphTensor*>*)whileWithInitialInputs:(NSArray<MPSGraphTensor*>*)inputs
                                             before:(MPSGraphWhileBeforeBlock)before
                                              after:(MPSGraphWhileAfterBlock)after
                                               name:(NSString*)name {
  const std::vector<ResultType> values = mock::types_of(inputs);
  const auto asking = build_block(self, values, [&](NSArray<MPSGraphTensor*>* arguments) {
    NSMutableArray<MPSGraphTensor*>* results = [NSMutableArray array];
    MPSGraphTensor* condition = before(arguments, results);
    require_condition(@"while", condition);
    [results insertObject:condition atIndex:0];
    return results;
  });
  const std::vector<MPSGraphTensor*> given(asking->results.begin() + 1, asking->results.end());
  const std::vector<ResultType> results = types_of(given);
  const auto going = build_block(self, results, [&](NSArray<MPSGraphTensor*>* arguments) { return after(arguments); });
  require_same(@"while: the after block", types_of(going->results), values);
  return add_operation(self, @"while", name, listed(inputs), results,
                       [=](Run& run, const Values& in) {
                         Values around = in;
                         for (;;) {
                           Values found = run.block_results(*asking, around);
                           const bool again = found[0].truth(0);
                           found.erase(found.begin());
                           if (!again) return found;
                           around = run.block_results(*going, found);
                         }
                       })
      ->outputs;
}

- (NSArray<MPSGraphTensor*>*)forLoopWithLowerBound:(MPSGraphTensor*)lower
                                        upperBound:(MPSGraphTensor*)upper
                                              step:(MPSGraphTensor*)step
                              initialBodyArguments:(NSArray<MPSGraphTensor*>*)initial
                                              body:(MPSGraphForLoopBodyBlock)body
                                              name:(NSString*)name {
  for (MPSGraphTensor* bound : {lower, upper, step}) require_bound(bound);
  require_same(@"for: the bounds", mock::types_of(@[ upper, step ]), {lower->result, lower->result});
  const std::vector<ResultType> values = mock::types_of(initial);
  std::vector<ResultType> arguments = values;
  arguments.insert(arguments.begin(), {lower.dataType, {1}});
  const auto block = build_block(self, arguments, [&](NSArray<MPSGraphTensor*>* given) {
    NSMutableArray<MPSGraphTensor*>* around = [given mutableCopy];
    [around removeObjectAtIndex:0];
    return body(given[0], around);
  });
  require_same(@"for: the body", types_of(block->results), values);
  std::vector<MPSGraphTensor*> inputs = {lower, upper, step};
  for (MPSGraphTensor* tensor in initial) inputs.push_back(tensor);
  return add_operation(self, @"for", name, inputs, values,
                       [=](Run& run, const Values& in) {
                         const int64_t end = in[1].whole(0), by = in[2].whole(0);
                         if (by <= 0) misuse(@"for: the step must be positive, got %lld", static_cast<long long>(by));
                         Values around(in.begin() + 3, in.end());
                         for (int64_t i = in[0].whole(0); i < end; i += by) {
                           Values given = around;
                           Value index(in[0].type, {1});
                           index.set(0, i);
                           given.insert(given.begin(), index);
                           around = run.block_results(*block, given);
                         }
                         return around;
                       })
      ->outputs;
}
@end
