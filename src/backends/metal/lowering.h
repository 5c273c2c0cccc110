// From a Program to operations of an MPSGraph: the walk, and what the families' lowerings use of it.
//
// A family's file defines, for each of its kinds, a function that adds MPSGraph's operations for one operation and
// returns its results. All shapes are known. Tensors of rank 0 have shape (1) there; a result whose shape or element
// type comes out otherwise than inferred is reshaped or cast by the walk. What cannot be lowered ends in unsupported().
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

// One operation while it is lowered.
class Lowering {
 public:
  Lowering(ProgramLowering& program, const Operation& operation, GraphTensors inputs)
      : program(program), operation(operation), inputs(std::move(inputs)) {}

  ProgramLowering& program;
  const Operation& operation;
  const GraphTensors inputs;  // nil where an operand has no elements

  MPSGraph* graph() const;
  MPSGraphTensor* input(size_t i = 0) const;  // UnsupportedError when it has no elements
  size_t count() const { return inputs.size(); }
  const TensorType& type(size_t i = 0) const { return operation.inputs[i]->type; }
  const Dims& dims(size_t i = 0) const { return type(i).shape.dims(); }  // as inferred: rank 0 is empty
  int rank(size_t i = 0) const { return static_cast<int>(dims(i).size()); }
  DType dtype(size_t i = 0) const { return type(i).dtype; }
  const TensorType& result_type(size_t i = 0) const { return operation.outputs[i]->type; }
  const Dims& result_dims(size_t i = 0) const { return result_type(i).shape.dims(); }
  const Attributes& attributes() const { return operation.attributes; }
  Ints integers(size_t i) const;  // of a constant operand, such as a shape
  int64_t axis(std::string_view attribute = "axis", size_t i = 0) const;  // counted from the front
  Ints axes(std::string_view attribute = "axes", size_t i = 0) const;  // likewise; all when empty
  NSString* name() const;  // in Apple's debugger

  // Small constants and the commonest steps of compositions.
  MPSGraphTensor* scalar(double value, DType dtype) const;  // shape (1)
  MPSGraphTensor* filled(double value, const TensorType& type) const;
  MPSGraphTensor* ints(const Ints& values, DType dtype = DType::int32) const;  // rank 1
  MPSGraphTensor* reshape(MPSGraphTensor* tensor, const Dims& dims) const;
  MPSGraphTensor* cast(MPSGraphTensor* tensor, DType dtype) const;

  // A bound of a loop: of no dimension, as all who loop with MPSGraph give it. Anything else here has one at least.
  MPSGraphTensor* bound(MPSGraphTensor* tensor) const;
  MPSGraphTensor* bound_of(int64_t value) const;

  // UnsupportedError that names the operation, why, and where it was built.
  [[noreturn]] void unsupported(const std::string& why) const;
  [[noreturn]] void needs_system(std::string_view version) const;
};

using Lower = GraphTensors (*)(Lowering&);
// What a file of lowerings brings. It stands at the file's end:
//   const Lowerings pooling_lowerings("pooling", [] { define_lowering("max_pooling2d", lower_maximum); });
// sample_grid has none: Apple does not say which coordinate comes first and what relative ones are relative to, so it
// is expanded into gathers.
using Lowerings = Registration<Lowering>;
void define_lowering(std::string_view kind, Lower lower);  // in such a block
Lower find_lowering(std::string_view kind);  // null when there is none

// Walks a program, once.
class ProgramLowering {
 public:
  // `variables` are those of program.variables, in order, in `graph`. `frozen`: they are constants there, whose values
  // nothing changes.
  ProgramLowering(MPSGraph* graph, const compiler::Program& program, GraphTensors variables, bool frozen = false);

  void run();
  // Instead of run(): as a part of another program in the same MPSGraph, over its tensors. The targets' tensors.
  GraphTensors lower_within(const GraphTensors& operands);

  MPSGraph* const graph;
  const compiler::Program& program;
  const bool frozen;

  // After run(): what to feed and to ask for. A nil feed is not used; a nil target is a constant.
  GraphTensors feeds, targets;
  NSMutableArray<MPSGraphOperation*>* target_operations = [NSMutableArray array];
  std::vector<std::string> names;  // of the operations, for people
  // What the host looks at: a feed before the run, or results of its own when the device is done. Those are the last of
  // the targets, in the order of the reports. `read` may throw, which ends the run.
  struct Report {
    const Operation* operation;  // for errors
    int feed;  // a check_indices of it; -1: results
    GraphTensors results;
    std::vector<TensorType> types;
    std::function<void(const std::vector<runtime::NDArray>&)> read;
  };
  std::vector<Report> reports;
  MPSGraphTensor* intact = nil;  // bool: no check so far found one; nil when none reports
  bool is_within = false;  // lowered by lower_within(): its feeds are not a run's

  MPSGraphTensor* tensor_of(const Tensor* tensor) const;
  void bind(const Tensor* tensor, MPSGraphTensor* lowered) { tensors_[tensor] = lowered; }
  // Its type in MPSGraph: a history has room for its values in front.
  TensorType lowered_type(const Tensor* tensor);
  // The operations of a block of control flow; its results, nil where they have no elements. Those with effects run
  // before the results are there, of which there is always one: if need be, a number behind the block's own.
  GraphTensors lower_block(const Block& block, const GraphTensors& arguments);
  // What runs for an operation whose results may all be nil.
  void stands_for(const Operation& operation, MPSGraphOperation* lowered) { effects_[&operation] = lowered; }

 private:
  struct Uses {
    std::vector<MPSGraphOperation*> assigns, reads;  // the last assign, and the reads since
  };
  void lower_operations(const Block& block);
  void lower(const Operation& operation);
  GraphTensors results_of(const Operation& operation);
  GraphTensors assigned(const Operation& operation);
  MPSGraphTensor* checked(const Operation& operation, size_t result, MPSGraphTensor* tensor) const;
  MPSGraphOperation* stand_in(const Operation& operation) const;  // null when nothing was lowered for it
  std::vector<MPSGraphOperation*> predecessors(const Operation& operation) const;
  void remember_uses(const Operation& operation);
  // What `add` adds runs behind `operations`.
  GraphTensors after(const std::vector<MPSGraphOperation*>& operations, const std::function<GraphTensors()>& add);

  std::unordered_map<const Tensor*, MPSGraphTensor*> tensors_;
  std::optional<Histories> histories_;  // when there are any
  std::unordered_map<const Tensor*, Uses> uses_;  // of variables, in the block that is being lowered
  std::unordered_map<const Operation*, MPSGraphOperation*> effects_;  // what runs for operations, results or not
  std::vector<MPSGraphOperation*> block_effects_;  // of the block that is being lowered
};

}  // namespace mpsgraph::metal
