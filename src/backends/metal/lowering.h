// Lowering of a Program to operations of an MPSGraph: the walk over the program, and helpers for the lowerings of each
// family.
//
// Each family's file defines a function per kind of operation that adds MPSGraph operations for it and returns its
// results. All shapes are known. Tensors of rank 0 have shape (1) in MPSGraph; the walk reshapes or casts results whose
// shape or dtype differs from the inferred one. Operations that cannot be lowered call unsupported().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/metal/availability.h"
#include "backends/metal/frameworks.h"
#include "backends/metal/histories.h"
#include "backends/metal/types.h"
#include "compiler/program.h"
#include "core/registration.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::metal {

using GraphTensors = std::vector<MPSGraphTensor*>;

class ProgramLowering;

// One operation of a program, as passed to its lowering function.
class Lowering {
 public:
  Lowering(ProgramLowering& program, const Operation& operation, GraphTensors inputs)
      : program(program), operation(operation), inputs(std::move(inputs)) {}

  ProgramLowering& program;
  const Operation& operation;
  const GraphTensors inputs;  // operands; nil for operands without elements

  MPSGraph* graph() const;
  MPSGraphTensor* input(size_t i = 0) const;  // throws UnsupportedError if the operand has no elements
  size_t count() const { return inputs.size(); }
  const TensorType& type(size_t i = 0) const { return operation.inputs[i]->type; }
  // Dimensions of operand i as the core infers them: empty for rank 0, although MPSGraph's tensor has shape (1).
  const Dims& dims(size_t i = 0) const { return type(i).shape.dims(); }
  int rank(size_t i = 0) const { return static_cast<int>(dims(i).size()); }
  DType dtype(size_t i = 0) const { return type(i).dtype; }
  const TensorType& result_type(size_t i = 0) const { return operation.outputs[i]->type; }
  const Dims& result_dims(size_t i = 0) const { return result_type(i).shape.dims(); }
  const Attributes& attributes() const { return operation.attributes; }
  Ints integers(size_t i) const;  // the values of operand i, which must be a constant, such as a shape
  int64_t axis(std::string_view attribute = "axis", size_t i = 0) const;  // attribute as a non-negative axis
  // The axes in an attribute, as non-negative numbers; all axes of operand i if the attribute is empty.
  Ints axes(std::string_view attribute = "axes", size_t i = 0) const;
  NSString* name() const;  // shown in Apple's debugger

  // Small constants and common steps of compositions.
  MPSGraphTensor* scalar(double value, DType dtype) const;  // constant of shape (1)
  MPSGraphTensor* filled(double value, const TensorType& type) const;
  MPSGraphTensor* ints(const Ints& values, DType dtype = DType::int32) const;  // constant of rank 1
  MPSGraphTensor* reshape(MPSGraphTensor* tensor, const Dims& dims) const;
  MPSGraphTensor* cast(MPSGraphTensor* tensor, DType dtype) const;

  // Return a loop bound as a tensor of rank 0, because all known users of MPSGraph's loops pass bounds in this form.
  // All other scalars in this backend have shape (1).
  MPSGraphTensor* bound(MPSGraphTensor* tensor) const;
  MPSGraphTensor* bound_of(int64_t value) const;

  // Throw an UnsupportedError that names the operation, the reason, and where the operation was created.
  [[noreturn]] void unsupported(const std::string& why) const;
  [[noreturn]] void needs_system(std::string_view version) const;
};

using Lower = GraphTensors (*)(Lowering&);
// Registers a file's lowerings; defined at the end of the file:
//   const Lowerings pooling_lowerings("pooling", [] { define_lowering("max_pooling2d", lower_maximum); });
// sample_grid has no lowering: Apple documents neither which coordinate comes first nor the origin of relative
// coordinates, so sample_grid is expanded into gathers.
using Lowerings = Registration<Lowering>;
void define_lowering(Kind kind, Lower lower);  // called in the lambda that is passed to Lowerings
Lower find_lowering(Kind kind);  // null if `kind` has no lowering

// Walks a program and lowers its operations. Each instance is used once.
class ProgramLowering {
 public:
  // `variables` are the tensors of program.variables in `graph`, in the same order. If `frozen` is set, these tensors
  // are constants instead of variables.
  ProgramLowering(MPSGraph* graph, const compiler::Program& program, GraphTensors variables, bool frozen = false);

  void run();
  // Lower the program as part of another program in the same MPSGraph, instead of calling run(). Returns the targets'
  // tensors.
  GraphTensors lower_within(const GraphTensors& operands);

  MPSGraph* const graph;
  const compiler::Program& program;
  const bool frozen;

  // Feeds and targets of the MPSGraph, set by run(). A nil feed is unused; a nil target is a constant.
  GraphTensors feeds, targets;
  NSMutableArray<MPSGraphOperation*>* target_operations = [NSMutableArray array];
  std::vector<std::string> names;  // names of the operations, for display
  // Tensors that the host inspects: a feed before the run, or additional results after completion. These results are
  // the last targets, in the order of the reports. `read` may throw, which fails the run.
  struct Report {
    const Operation* operation;  // operation that error messages name
    int feed;  // index of the feed that a check_indices inspects; -1 if the report reads a result
    GraphTensors results;
    std::vector<TensorType> types;
    std::function<void(const std::vector<runtime::NDArray>&)> read;
  };
  std::vector<Report> reports;
  MPSGraphTensor* intact = nil;  // bool tensor: no check so far has failed; nil if there are no checks
  bool is_within = false;  // whether lower_within() was called, so that `feeds` are operands of the caller

  MPSGraphTensor* tensor_of(const Tensor* tensor) const;
  void bind(const Tensor* tensor, MPSGraphTensor* lowered) { tensors_[tensor] = lowered; }
  // Type of the tensor in MPSGraph: histories have additional leading dimensions for their values.
  TensorType lowered_type(const Tensor* tensor);
  // Lower the operations of a control-flow block and return the block's results, nil for those without elements. The
  // results depend on the block's operations with effects, so these operations run whenever the block runs. If no
  // result has elements, an unused number with this dependency is returned in addition.
  GraphTensors lower_block(const Block& block, const GraphTensors& arguments);
  // Record which MPSGraph operation represents `operation` in control dependencies. The MPSGraph operation cannot be
  // derived from the results, which may all be nil.
  void stands_for(const Operation& operation, MPSGraphOperation* lowered) { effects_[&operation] = lowered; }

 private:
  struct Uses {
    std::vector<MPSGraphOperation*> assigns, reads;  // the last assignment, and the reads after it
  };
  void lower_operations(const Block& block);
  void lower(const Operation& operation);
  GraphTensors results_of(const Operation& operation);
  GraphTensors assigned(const Operation& operation);
  MPSGraphTensor* checked(const Operation& operation, size_t result, MPSGraphTensor* tensor) const;
  MPSGraphOperation* stand_in(const Operation& operation) const;  // null if nothing was lowered for `operation`
  std::vector<MPSGraphOperation*> predecessors(const Operation& operation) const;
  void remember_uses(const Operation& operation);
  // Make all operations that `add` creates run after `operations`.
  GraphTensors after(const std::vector<MPSGraphOperation*>& operations, const std::function<GraphTensors()>& add);

  std::unordered_map<const Tensor*, MPSGraphTensor*> tensors_;
  std::optional<Histories> histories_;  // created when first needed
  std::unordered_map<const Tensor*, Uses> uses_;  // keyed by variable; only for uses in the current block
  // The MPSGraph operation that represents each lowered operation in control dependencies, even if it has no results.
  std::unordered_map<const Operation*, MPSGraphOperation*> effects_;
  std::vector<MPSGraphOperation*> block_effects_;  // operations with effects in the current block
};

}  // namespace mpsgraph::metal
