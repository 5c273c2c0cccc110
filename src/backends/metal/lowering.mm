// Walks a program, orders the reads and assignments of variables, and keeps the registry of lowerings.
#include "backends/metal/lowering.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/definition.h"
#include "core/kind_table.h"
#include "core/known_values.h"

namespace mpsgraph::metal {

// --- registry --------------------------------------------------------------------------------------------------------

namespace {

KindTable<Lower>& table() {
  // never destroyed, because queues use it until the process exits
  static auto& lowerings = *new KindTable<Lower>;
  return lowerings;
}

}  // namespace

void define_lowering(Kind kind, Lower lower) {
  if (table().contains(kind)) throw GraphError(cat("operation '", kind, "' has two lowerings; expected one"));
  table()[kind] = lower;
}

Lower find_lowering(Kind kind) {
  static std::once_flag once;
  std::call_once(once, [] { Lowerings::for_each([](std::string_view, Lowerings::Say define) { define(); }); });
  const Lower* found = table().find(kind);
  return found ? *found : nullptr;
}

// --- one operation ---------------------------------------------------------------------------------------------------

MPSGraph* Lowering::graph() const { return program.graph; }

MPSGraphTensor* Lowering::input(size_t i) const {
  return inputs[i] ? inputs[i] : program.tensor_of(operation.inputs[i]);
}

NSString* Lowering::name() const { return @(operation.name.c_str()); }

Ints Lowering::integers(size_t i) const {
  const auto values = constant_value(operation.inputs[i]);
  if (!values)
    unsupported(cat("operand ", i, " must be a compile-time constant; use device=\"cpu\" for computed values"));
  return *values;
}

int64_t Lowering::axis(std::string_view attribute, size_t i) const {
  const int64_t axis = attributes().integer(attribute);
  return axis < 0 ? axis + rank(i) : axis;
}

Ints Lowering::axes(std::string_view attribute, size_t i) const {
  Ints axes = attributes().integers(attribute);
  if (axes.empty()) {
    axes.resize(rank(i));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes)
    if (axis < 0) axis += rank(i);
  return axes;
}

MPSGraphTensor* Lowering::scalar(double value, DType dtype) const { return filled(value, {dtype, Shape(Dims{1})}); }

MPSGraphTensor* Lowering::filled(double value, const TensorType& type) const {
  require_size(type.shape.dims(), size_of(type.dtype));
  if (is_complex(type.dtype)) {
    if (METAL_AVAILABLE(14.0, 17.0))
      return [graph() constantWithRealPart:value imaginaryPart:0 shape:shape_of(type) dataType:data_type(type.dtype)];
    needs_system("14.0");
  }
  return [graph() constantWithScalar:value shape:shape_of(type) dataType:data_type(type.dtype)];
}

MPSGraphTensor* Lowering::ints(const Ints& values, DType dtype) const {
  const Dims dims{static_cast<int64_t>(values.size())};
  if (dtype == DType::int32) {
    const std::vector<int32_t> narrow(values.begin(), values.end());
    return [graph() constantWithData:[NSData dataWithBytes:narrow.data() length:4 * narrow.size()]
                               shape:numbers(dims)
                            dataType:MPSDataTypeInt32];
  }
  const ConstantPtr value = ConstantData::of_ints(values);
  MPSGraphTensor* tensor = [graph() constantWithData:bytes_of(value) shape:numbers(dims) dataType:MPSDataTypeInt64];
  return dtype == DType::int64 ? tensor : cast(tensor, dtype);
}

MPSGraphTensor* Lowering::reshape(MPSGraphTensor* tensor, const Dims& dims) const {
  require_size(tensor, dims);
  if ([tensor.shape isEqual:shape_of(dims)]) return tensor;
  return [graph() reshapeTensor:tensor withShape:shape_of(dims) name:nil];
}

MPSGraphTensor* Lowering::bound(MPSGraphTensor* tensor) const {
  return [graph() reshapeTensor:tensor withShape:@[] name:nil];
}

MPSGraphTensor* Lowering::bound_of(int64_t value) const {
  return [graph() constantWithScalar:static_cast<double>(value) shape:@[] dataType:MPSDataTypeInt32];
}

MPSGraphTensor* Lowering::cast(MPSGraphTensor* tensor, DType dtype) const {
  const MPSDataType type = data_type(dtype);
  return tensor.dataType == type ? tensor : [graph() castTensor:tensor toType:type name:nil];
}

void Lowering::unsupported(const std::string& why) const {
  throw UnsupportedError(cat("[", operation.kind(), "] on the Metal device: ", why, operation.where()));
}

void Lowering::needs_system(std::string_view version) const {
  unsupported(cat("this requires macOS ", version, " or later; update macOS, or use device=\"cpu\""));
}

// --- the walk --------------------------------------------------------------------------------------------------------

namespace {

bool has_effect(const Operation& operation) {  // prints do not count as effects, because they add results
  return (is_effect(operation) && !operation.is("print")) ||
         std::ranges::any_of(operation.blocks, [](const auto& block) {
           return std::ranges::any_of(block->operations, [](const auto& inner) { return has_effect(*inner); });
         });
}

// Call use(variable, is_assign) for every read and assign in the operation and its blocks.
void for_each_use(const Operation& operation, const std::function<void(const Tensor*, bool)>& use) {
  if (operation.is({"read", "assign"})) use(operation.input(0), operation.is("assign"));
  for (const auto& block : operation.blocks)
    for (const auto& inner : block->operations) for_each_use(*inner, use);
}

void append(std::vector<MPSGraphOperation*>& all, const std::vector<MPSGraphOperation*>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

ProgramLowering::ProgramLowering(MPSGraph* graph, const compiler::Program& program, GraphTensors variables, bool frozen)
    : graph(graph), program(program), frozen(frozen) {
  for (size_t i = 0; i < variables.size(); ++i) bind(program.variables[i], variables[i]);
}

void ProgramLowering::run() {
  for (const Tensor* feed : program.feeds) {
    MPSGraphTensor* placeholder = nil;
    require_size(feed->shape().dims(), size_of(feed->dtype()), feed->operation->where());
    if (feed->shape().elements() > 0)
      placeholder = [graph placeholderWithShape:shape_of(feed->type)
                                       dataType:data_type(feed->dtype(), feed->operation->where())
                                           name:@(feed->operation->name.c_str())];
    feeds.push_back(placeholder);
    bind(feed, placeholder);
  }
  lower_operations(program.graph->root());
  for (MPSGraphOperation* effect : block_effects_) [target_operations addObject:effect];
  NSMutableArray<MPSGraphTensor*>* taken = [NSMutableArray array];
  for (const Tensor* target : program.targets) {
    if (target->operation->is("constant") && !frozen) {
      targets.push_back(nil);
      continue;
    }
    MPSGraphTensor* tensor = tensor_of(target);
    // Each target needs a separate tensor, because results are keyed by tensor and feeds cannot be results.
    const bool given = target->operation->is({"placeholder", "constant"});
    if (given || [taken containsObject:tensor]) tensor = [graph identityWithTensor:tensor name:nil];
    [taken addObject:tensor];
    targets.push_back(tensor);
  }
  for (const Report& report : reports) targets.insert(targets.end(), report.results.begin(), report.results.end());
}

GraphTensors ProgramLowering::lower_within(const GraphTensors& operands) {
  is_within = true;
  for (size_t i = 0; i < operands.size(); ++i) bind(program.feeds[i], operands[i]);
  lower_operations(program.graph->root());
  GraphTensors results;
  for (const Tensor* target : program.targets) results.push_back(tensors_.at(target));
  return results;
}

MPSGraphTensor* ProgramLowering::tensor_of(const Tensor* tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end() || !found->second)
    throw UnsupportedError(cat("[", tensor->operation->kind(), "] on the Metal device: ", tensor->name(), " of type ",
                               tensor->type, " has no elements, which MPSGraph does not support; use device=\"cpu\"",
                               tensor->operation->where()));
  return found->second;
}

GraphTensors ProgramLowering::lower_block(const Block& block, const GraphTensors& arguments) {
  for (size_t i = 0; i < block.arguments.size(); ++i) bind(block.arguments[i], arguments[i]);
  auto outer_uses = std::move(uses_);
  auto outer_effects = std::move(block_effects_);
  uses_.clear();
  block_effects_.clear();
  lower_operations(block);
  const GraphTensors results = after(block_effects_, [&] {
    GraphTensors own;
    for (const Tensor* result : block.results) {
      MPSGraphTensor* tensor = tensors_.at(result);
      const bool is_own = result->operation->parent == &block && block_effects_.empty();
      own.push_back(is_own || !tensor ? tensor : [graph identityWithTensor:tensor name:nil]);
    }
    if (std::ranges::all_of(own, [](MPSGraphTensor* tensor) { return !tensor; }))
      own.push_back([graph identityWithTensor:[graph constantWithScalar:0 shape:@[ @1 ] dataType:MPSDataTypeInt32]
                                         name:nil]);
    return own;
  });
  uses_ = std::move(outer_uses);
  block_effects_ = std::move(outer_effects);
  return results;
}

TensorType ProgramLowering::lowered_type(const Tensor* tensor) {
  const TensorType& type = tensor->type;
  if (type.history == 0) return {type.dtype, Shape(type.shape.rank() == 0 ? Dims{1} : type.shape.dims())};
  if (!histories_) histories_.emplace(program);
  Dims dims = histories_->rooms(tensor);
  dims.insert(dims.end(), type.shape.dims().begin(), type.shape.dims().end());
  return {type.dtype, Shape(dims)};
}

void ProgramLowering::lower_operations(const Block& block) {
  for (const auto& operation : block.operations) {
    const bool is_given = operation->is({"placeholder", "variable", "argument"});
    if (!is_given) lower(*operation);
  }
}

void ProgramLowering::lower(const Operation& operation) {
  for (const auto& output : operation.outputs)
    if (output->shape().known()) require_size(output->shape().dims(), size_of(output->dtype()), operation.where());
  const GraphTensors results = after(predecessors(operation), [&] { return results_of(operation); });
  for (size_t i = 0; i < operation.outputs.size(); ++i)
    bind(operation.outputs[i].get(), checked(operation, i, results[i]));
  if (!operation.is("constant")) names.push_back(operation.name);
  remember_uses(operation);
  if (!has_effect(operation)) return;
  if (MPSGraphOperation* effect = stand_in(operation)) block_effects_.push_back(effect);
}

GraphTensors ProgramLowering::results_of(const Operation& operation) {
  if (operation.is("assign")) return assigned(operation);
  const Lower lower = find_lowering(operation.kind());
  if (!lower)
    throw UnsupportedError(
        cat("[", operation.kind(),
            "] on the Metal device: MPSGraph has no such operation, and this library cannot compose it "
            "of other operations; use device=\"cpu\"",
            operation.where()));
  GraphTensors inputs;
  // Operands may be nil here, because tensors without elements can pass through blocks. The contents of empty shapes
  // and empty indices are never read.
  for (const Tensor* input : operation.inputs) inputs.push_back(tensors_.at(input));
  Lowering lowering(*this, operation, std::move(inputs));
  GraphTensors results;
  try {
    results = lower(lowering);
    // an exception thrown by a helper does not name the operation, so add its name
  } catch (const UnsupportedError& error) {
    const std::string what = error.what(), where = operation.where();
    if (where.empty() || what.find(where) != std::string::npos) throw;
    throw UnsupportedError(cat(what, where));
  }
  if (results.size() != operation.outputs.size())
    throw GraphError(cat("[", operation.kind(), "] the number of results of the lowering must be ",
                         operation.outputs.size(), ", got ", results.size(), operation.where()));
  return results;
}

GraphTensors ProgramLowering::assigned(const Operation& operation) {
  MPSGraphTensor *const variable = tensor_of(operation.input(0)), *value = tensor_of(operation.input(1));
  if (intact)  // a failed check leaves the variable unchanged
    value = [graph selectWithPredicateTensor:intact
                         truePredicateTensor:value
                        falsePredicateTensor:[graph readVariable:variable name:nil]
                                        name:nil];
  effects_[&operation] = [graph assignVariable:variable withValueOfTensor:value name:@(operation.name.c_str())];
  return {};
}

// For a result, MPSGraph may infer a different dtype or shape than this library does. Such a result is cast and
// reshaped to the type that this library infers. If the numbers of elements differ, a GraphError is thrown.
MPSGraphTensor* ProgramLowering::checked(const Operation& operation, size_t result, MPSGraphTensor* tensor) const {
  const TensorType& type = operation.outputs[result]->type;
  if (!tensor || type.history) return tensor;
  const MPSDataType wanted = data_type(type.dtype, operation.where());
  if (tensor.dataType != wanted) tensor = [graph castTensor:tensor toType:wanted name:nil];
  MPSShape* shape = shape_of(type);
  if ([tensor.shape isEqualToArray:shape]) return tensor;
  const Dims dims = dims_of(tensor.shape);
  const bool known = tensor.shape && std::ranges::none_of(dims, [](int64_t size) { return size < 0; });
  if (known && element_count(dims) != type.shape.elements())
    throw GraphError(cat("[", operation.kind(), "] MPSGraph infers shape ", mpsgraph::to_string(dims),
                         " for a result, but the expected type is ", type, "; please report this", operation.where()));
  return [graph reshapeTensor:tensor withShape:shape name:nil];
}

// --- order -----------------------------------------------------------------------------------------------------------

MPSGraphOperation* ProgramLowering::stand_in(const Operation& operation) const {
  if (const auto effect = effects_.find(&operation); effect != effects_.end()) return effect->second;
  for (const auto& output : operation.outputs)
    if (const auto found = tensors_.find(output.get()); found != tensors_.end() && found->second)
      return found->second.operation;
  return nil;
}

// Return the operations that must run first. A read runs after preceding assignments, an assignment after all preceding
// uses, control flow after every operation on which its blocks depend, and a barrier after all its operands.
std::vector<MPSGraphOperation*> ProgramLowering::predecessors(const Operation& operation) const {
  std::vector<MPSGraphOperation*> result;
  for (const Operation* dependency : operation.control_dependencies)
    if (MPSGraphOperation* before = stand_in(*dependency)) result.push_back(before);
  if (operation.is("optimization_barrier"))
    for (const Tensor* operand : operation.inputs)
      if (MPSGraphOperation* before = stand_in(*operand->operation)) result.push_back(before);
  for_each_use(operation, [&](const Tensor* variable, bool assigns) {
    const auto uses = uses_.find(variable);
    if (uses == uses_.end()) return;
    append(result, uses->second.assigns);
    if (assigns) append(result, uses->second.reads);
  });
  return result;
}

void ProgramLowering::remember_uses(const Operation& operation) {
  for_each_use(operation, [&](const Tensor* variable, bool assigns) {
    MPSGraphOperation* done = stand_in(operation);
    if (!done) return;
    Uses& uses = uses_[variable];
    if (assigns)
      uses = {{done}, {}};
    else
      uses.reads.push_back(done);
  });
}

GraphTensors ProgramLowering::after(const std::vector<MPSGraphOperation*>& operations,
                                    const std::function<GraphTensors()>& add) {
  if (operations.empty()) return add();
  NSMutableArray<MPSGraphOperation*>* before = [NSMutableArray array];
  for (MPSGraphOperation* operation : operations)
    if (![before containsObject:operation]) [before addObject:operation];
  // No exception may propagate through Apple's frames.
  GraphTensors results;
  std::exception_ptr error;
  GraphTensors* const made = &results;
  std::exception_ptr* const thrown = &error;
  NSArray<MPSGraphTensor*>* forwarded = [graph controlDependencyWithOperations:before
                                                                dependentBlock:^NSArray<MPSGraphTensor*>*() {
                                                                  NSMutableArray<MPSGraphTensor*>* own =
                                                                      [NSMutableArray array];
                                                                  try {
                                                                    *made = add();
                                                                    for (MPSGraphTensor* tensor : *made)
                                                                      if (tensor) [own addObject:tensor];
                                                                  } catch (...) {
                                                                    *thrown = std::current_exception();
                                                                  }
                                                                  return own;
                                                                }
                                                                          name:nil];
  if (error) std::rethrow_exception(error);
  NSUInteger next = 0;
  for (MPSGraphTensor* __strong& result : results)
    if (result) result = forwarded[next++];
  return results;
}

}  // namespace mpsgraph::metal
