// Placeholders, constants, variables, and control dependencies.
#include <algorithm>

#include "graph/graph.h"
#include "metal/counts.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

MPSGraphTensor* add_constant(MPSGraph* graph, Value value) {
  MPSGraphOperation* operation = add_operation(graph, @"constant", nil, {}, {{value.type, value.dims}},
                                               [value](Run&, const Values&) { return Values{value}; });
  operation->constant = std::make_shared<const Value>(value);
  return operation->outputs[0];
}

Value of_data(NSData* data, MPSShape* shape, MPSDataType type) {
  const Dims dims = dims_of(shape);
  const size_t wanted = bytes_of(type, count_of(dims));
  if (data.length != wanted)
    misuse(@"constant: %lu bytes do not match shape %@ of %s", data.length, text_of(dims), type_name(type));
  return Value::of(type, dims, data.bytes);
}

}  // namespace

// --- the initial data of variables -----------------------------------------------------------------------------------

namespace {

struct KeptData {
  std::mutex mutex;
  std::map<const void*, std::vector<NSUInteger>> lengths;  // by address, because several NSData may share memory
};
KeptData& kept_data() {
  static auto& kept = *new KeptData;
  return kept;
}

}  // namespace

mock::InitialData::InitialData(NSData* data) : data_(data) {
  std::lock_guard lock(kept_data().mutex);
  kept_data().lengths[data.bytes].push_back(data.length);
}

mock::InitialData::~InitialData() {
  std::lock_guard lock(kept_data().mutex);
  std::vector<NSUInteger>& lengths = kept_data().lengths[data_.bytes];
  lengths.erase(std::ranges::find(lengths, data_.length));
  if (lengths.empty()) kept_data().lengths.erase(data_.bytes);
}

uint64_t mock_initial_variable_bytes(void) {
  std::lock_guard lock(kept_data().mutex);
  uint64_t bytes = 0;
  for (const auto& [address, lengths] : kept_data().lengths) bytes += *std::ranges::max_element(lengths);
  return bytes;
}

mock::Variables::Variables(const Variables& other) : values(other.values), initial(other.initial) {}

// --- the methods -----------------------------------------------------------------------------------------------------

@implementation MPSGraph (MockMemory)

- (MPSGraphTensor*)placeholderWithShape:(MPSShape*)shape dataType:(MPSDataType)type name:(NSString*)name {
  MPSGraphTensor* tensor = add_operation(self, @"placeholder", name, {}, {{type, dims_of(shape)}}, nullptr)->outputs[0];
  [placeholders addObject:tensor];
  return tensor;
}

- (MPSGraphTensor*)constantWithData:(NSData*)data shape:(MPSShape*)shape dataType:(MPSDataType)type {
  return add_constant(self, of_data(data, shape, type));
}
- (MPSGraphTensor*)constantWithScalar:(double)scalar shape:(MPSShape*)shape dataType:(MPSDataType)type {
  if (type == MPSDataTypeUInt32 && scalar > INT32_MAX)
    misuse(@"constant: uint32 scalars above 2^31 are refused, because no known caller passes them");
  Value value(type, dims_of(shape));
  for (int64_t i = 0; i < value.count(); ++i) value.set(i, scalar);
  return add_constant(self, value);
}
- (MPSGraphTensor*)constantWithScalar:(double)scalar dataType:(MPSDataType)type {
  return [self constantWithScalar:scalar shape:@[ @1 ] dataType:type];
}
- (MPSGraphTensor*)constantWithRealPart:(double)real
                          imaginaryPart:(double)imaginary
                                  shape:(MPSShape*)shape
                               dataType:(MPSDataType)type {
  Value value(type, dims_of(shape));
  for (int64_t i = 0; i < value.count(); ++i) value.set(i, Complex(real, imaginary));
  return add_constant(self, value);
}

- (MPSGraphTensor*)variableWithData:(NSData*)data
                              shape:(MPSShape*)shape
                           dataType:(MPSDataType)type
                               name:(NSString*)name {
  const Value initial = of_data(data, shape, type);
  MPSGraphOperation* operation =
      add_operation(self, @"variable", name, {}, {{type, initial.dims}}, [](Run&, const Values& values) -> Values {
        misuse(@"a variable was used as a value; call readVariable first");
        return values;
      });
  std::lock_guard lock(variables->mutex);
  variables->values[(__bridge void*)operation] = initial;
  variables->initial[(__bridge void*)operation] = std::make_shared<InitialData>(data);
  return operation->outputs[0];
}

- (MPSGraphTensor*)readVariable:(MPSGraphTensor*)variable name:(NSString*)name {
  MPSGraphOperation* source = variable->producer;
  if (![source->kind isEqualToString:@"variable"])
    misuse(@"readVariable: the tensor must be a variable, got %@", source->kind);
  return add_operation(self, @"read", name, {}, {variable->result},
                       [source](Run& run, const Values&) {
                         std::lock_guard lock(run.variables.mutex);
                         return Values{run.variables.values.at((__bridge void*)source)};
                       })
      ->outputs[0];
}

- (MPSGraphOperation*)assignVariable:(MPSGraphTensor*)variable
                   withValueOfTensor:(MPSGraphTensor*)value
                                name:(NSString*)name {
  MPSGraphOperation* target = variable->producer;
  if (![target->kind isEqualToString:@"variable"])
    misuse(@"assignVariable: the tensor must be a variable, got %@", target->kind);
  if (value->result.type != variable->result.type || value->result.dims != variable->result.dims)
    misuse(@"assignVariable: the value must have the variable's type and shape %@, got shape %@",
           text_of(variable->result.dims), text_of(value->result.dims));
  return add_operation(self, @"assign", name, {value}, {}, [target](Run& run, const Values& values) {
    std::lock_guard lock(run.variables.mutex);
    run.variables.values.at((__bridge void*)target) = values[0];
    return Values{};
  });
}

- (NSArray<MPSGraphTensor*>*)controlDependencyWithOperations:(NSArray<MPSGraphOperation*>*)before
                                              dependentBlock:(MPSGraphControlFlowDependencyBlock)block
                                                        name:(NSString*)name {
  NSMutableArray<MPSGraphOperation*>* outer = pending_dependencies;
  pending_dependencies = [outer mutableCopy];
  [pending_dependencies addObjectsFromArray:before];
  @try {
    return block();
  } @finally {
    pending_dependencies = outer;
  }
}
@end
