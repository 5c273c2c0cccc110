// Lowers constants and reads of variables. The walk creates placeholders, and the class that stores variables creates
// their tensors.
#include "backends/metal/lowering.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_constant(Lowering& l) {
  const ConstantPtr& value = l.attributes().data("value");
  const TensorType& type = l.result_type();
  if (type.shape.elements() == 0) return {nil};  // a constant without elements is never read
  if (value->is_splat() && is_float(value->dtype())) return {l.filled(value->scalar(), type)};
  return {[l.graph() constantWithData:bytes_of(value) shape:shape_of(type) dataType:data_type(type.dtype)]};
}

GraphTensors lower_read(Lowering& l) {
  if (l.program.frozen) return {[l.graph() identityWithTensor:l.input() name:l.name()]};
  return {[l.graph() readVariable:l.input() name:l.name()]};
}

// The walk adds control dependencies on the other operands (ProgramLowering::predecessors).
GraphTensors lower_barrier(Lowering& l) {
  return {l.inputs[0] ? [l.graph() identityWithTensor:l.inputs[0] name:l.name()] : nil};
}

// Lower a value that is never used to zeros.
GraphTensors lower_undefined(Lowering& l) { return {l.filled(0, l.program.lowered_type(l.operation.output()))}; }

}  // namespace

const Lowerings memory_lowerings("memory", [] {
  define_lowering("constant", lower_constant);
  define_lowering("read", lower_read);
  define_lowering("undefined", lower_undefined);
  define_lowering("optimization_barrier", lower_barrier);
});

}  // namespace mpsgraph::metal
