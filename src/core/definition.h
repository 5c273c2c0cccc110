// OperationDefinition, which holds everything the core knows about a kind of operation, and the registry of all
// definitions.
//
// Each family defines its operations in src/core/ops/<family>.cpp: signature, attributes, type inference, and
// derivative, side by side. Backends keep their own tables, indexed by kind (core/kind_table.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/registration.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// An operation as seen by its type inference function. `constant(i)` returns the value of integer operand i if the
// value is known, i.e. computed from constants or by shape_of from a known shape. Shapes can therefore be given as
// operands.
class InferContext {
 public:
  InferContext(const OperationDefinition& definition, const std::vector<Tensor*>& inputs, const Attributes& attributes,
               const std::vector<std::unique_ptr<Block>>& blocks, std::string where)
      : definition(definition), inputs(inputs), attributes(attributes), blocks(blocks), where(std::move(where)) {}

  const OperationDefinition& definition;
  const std::vector<Tensor*>& inputs;
  const Attributes& attributes;
  const std::vector<std::unique_ptr<Block>>& blocks;
  std::string where;  // text for messages such as "; built at model.py:41", or empty

  size_t count() const { return inputs.size(); }
  const TensorType& type(size_t i) const { return inputs[i]->type; }
  const Shape& shape(size_t i) const { return inputs[i]->type.shape; }
  DType dtype(size_t i) const { return inputs[i]->type.dtype; }
  std::optional<Ints> constant(size_t i) const;
  // Operand i interpreted as a shape: -1 for elements whose value is unknown, unranked if the number of elements is
  // unknown.
  Shape shape_operand(size_t i) const;

  // Throw an error whose message starts with the operation's name and ends with the location where the operation was
  // built.
  [[noreturn]] void shape_error(const std::string& message) const;
  [[noreturn]] void dtype_error(const std::string& message) const;
  [[noreturn]] void graph_error(const std::string& message) const;

  // Throws unless the operands from `first` up to `end` (exclusive) have the same dtype. The error suggests the cast to
  // add.
  void require_same_dtype(size_t first = 0, size_t end = SIZE_MAX) const;
  void require_float(size_t i) const;
  void require_inexact(size_t i) const;             // requires a float or complex dtype
  void require_rank(size_t i, int rank) const;      // requires this rank; also accepts unranked operands
  int axis(int64_t axis, int rank) const;           // wraps a negative axis; throws ShapeError if out of range
};

// An operation as seen by its derivative rule. Rules add operations to graph(), after all existing operations.
class GradientContext {
 public:
  GradientContext(Operation& operation, std::vector<Tensor*> incoming, std::vector<bool> needed,
                  std::vector<Tensor*> captures = {})
      : operation(operation),
        captures(std::move(captures)),
        incoming_(std::move(incoming)),
        needed_(std::move(needed)),
        result(operation.inputs.size()),
        capture_result(this->captures.size()) {}

  Operation& operation;
  // The tensors that the operation's blocks use, that are defined outside these blocks, and that need gradients.
  const std::vector<Tensor*> captures;
  Graph& graph() const { return operation.graph(); }
  Tensor* input(size_t i) const { return operation.inputs[i]; }
  Tensor* output(size_t i = 0) const { return operation.output(i); }
  const Attributes& attributes() const { return operation.attributes; }
  Tensor* incoming(size_t i = 0) const { return incoming_[i]; }   // null if no gradient reaches that result
  size_t incoming_count() const { return incoming_.size(); }      // number of results when backpropagation started
  bool needs(size_t i) const { return needed_[i]; }               // whether the gradient for input i is needed
  void set(size_t i, Tensor* gradient) { result[i] = gradient; }  // a gradient that is never set is zero

 private:
  std::vector<Tensor*> incoming_;
  std::vector<bool> needed_;

 public:
  std::vector<Tensor*> result;
  std::vector<Tensor*> capture_result;  // the gradient of each capture; null if it is zero

  // Adds an operation of a different kind whose tensor attributes (attributes that can be passed as integer tensors)
  // are a subset of this operation's. If this operation takes them as operands, these operands are appended to
  // `inputs`.
  Tensor* add_alike(Kind kind, std::vector<Tensor*> inputs, Attributes attributes) const;
};

// The classes of dtypes that operations accept as operands.
enum class DTypeClass {
  any,
  ordered,    // all dtypes except complex ones
  algebraic,  // integer, float, and complex dtypes
  numbers,    // integer and float dtypes
  analytic,   // float and complex dtypes
  floats,
  integers,
  booleans,
  complexes
};
MPSGRAPH_API std::string_view name(DTypeClass dtypes);

struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  std::optional<Attribute> default_value;  // nullopt if the attribute is required

  AttributeSpec(std::string_view name, AttributeKind kind, std::optional<Attribute> default_value);
  AttributeSpec(const AttributeSpec&);
  AttributeSpec(AttributeSpec&&) noexcept;
  AttributeSpec& operator=(const AttributeSpec&);
  AttributeSpec& operator=(AttributeSpec&&) noexcept;
  ~AttributeSpec();
};
AttributeSpec required(std::string_view name, AttributeKind kind);
AttributeSpec optional(std::string_view name, Attribute default_value);

using Complete = std::function<Attributes(Attributes given, std::string_view where)>;
using Infer = std::function<std::vector<TensorType>(const InferContext&)>;
using Gradient = std::function<void(GradientContext&)>;
// Computes the results of a composite operation from simpler operations; this defines the composite's semantics. The
// compiler expands a composite if the backend has no kernel for it. Differentiation uses the decomposition if there is
// no derivative rule.
using Decompose =
    std::function<std::vector<Tensor*>(class Builder&, const std::vector<Tensor*>& inputs, const Attributes&)>;

struct OperationDefinition {
  Kind name;
  std::string_view family = {};  // name of the family and of its file, e.g. "arithmetic" or "pooling"; set by define()
  int min_inputs = 0;
  int max_inputs = 0;  // -1 if the number of operands is unlimited
  std::vector<AttributeSpec> attributes = {};
  Complete complete = {};  // replaces the check against `attributes`, for operations that accept arbitrary attributes
  // Attributes that can be given as integer tensors instead, either all or none of them. Each then becomes one operand
  // after the `min_inputs` other operands. The operands are converted to attributes as soon as their values are known,
  // so passes and kernels only see attributes.
  std::vector<std::string_view> tensor_attributes = {};
  Infer infer = {};
  // Inference function used if an attribute is given as a tensor whose value is unknown. If there is no such function,
  // the result is unranked.
  Infer infer_unvalued = {};
  // Derivative rule; empty if the operation is differentiated through its decomposition or is not differentiable.
  Gradient gradient = {};
  Decompose decompose = {};  // empty if the operation is primitive
  bool gradient_is_zero = false;  // true for operations whose derivative is zero, e.g. sign, floor, and comparisons
  int block_count = 0;  // number of blocks that the operation takes, e.g. for control flow and fused kernels
  // true for operations such as assign, which are kept if they are targets and never merged with an equal operation
  bool has_effect = false;
  // The name of the boolean attribute that states whether an operation has an effect; see is_effect().
  std::string_view effect_attribute = {};
  // true for read and assign, whose operand 0 is a variable; variables passed as other operands are read implicitly
  bool takes_variables = false;
  // true for placeholder and variable, which are allowed only in the root block and without control dependencies
  bool root_only = false;
  // element i of the result depends only on element i of each operand, with numpy broadcasting
  bool elementwise = false;
  // What callers see. The methods of Python's Graph, their documentation, and their stubs are derived from the
  // following members; if `documentation` is empty, the method is written in python/mpsgraph/ops/.
  DTypeClass dtypes = DTypeClass::any;  // dtypes of the operands; of the first operand if the operands differ
  bool predicate = false;  // true if the result is bool
  // The arguments in order, such as "x: number, axis, exclusive". A name in `attributes` is that attribute, with its
  // default; all other names are operands. What follows the name of an operand:
  //   (nothing) a tensor
  //   number    a tensor or a number, which becomes a constant; "alpha: number = 0.01" has a default
  //   mask      a bool tensor that does not determine the dtype of numbers
  //   shape     the shape of a tensor, or an integer tensor
  //   tensors   any number of tensors
  //   optional  a tensor or None
  // and of an attribute:
  //   required  callers must pass it, although it has a default for the case that it is passed as a tensor
  //   axes      a list of axes in which callers pass None for all
  //   sizes     a list of ints; a single int is repeated
  //   padding   a padding style, or amounts, which become the attributes padding_style and padding
  //   window, strides  the window of a pooling operation: sizes or a descriptor, and steps or None
  //   = -1      callers have another default
  // Arguments after "*" can only be passed by name. The operation's name is the last argument, unless "name" is listed.
  // " -> list[Tensor]" at the end means several results.
  std::string_view parameters = {};
  // A docstring without the sections, arguments, and defaults that follow from the members above
  // (python/mpsgraph/ops/_documentation.py): summary, formula, gradient, source, and example.
  std::string documentation = {};
  bool internal = false;  // true if only passes or derivatives create the operation; it is then not exposed in Python
};

// The attributes as an operation stores them: defaults are filled in, and integers given for real attributes are
// converted. Throws a GraphError that lists the allowed attributes if an attribute is unknown, missing, or of the wrong
// kind.
Attributes complete_attributes(const OperationDefinition& definition, Attributes given, std::string_view where = {});
Attributes complete_attributes(std::string_view name, const std::vector<AttributeSpec>& specs, Attributes given,
                               std::string_view where);

// Converts operands that represent attributes into attributes. Returns false and changes nothing if the value of any
// such operand is unknown.
bool settle_tensor_attributes(const OperationDefinition& definition, std::vector<Tensor*>& inputs,
                              Attributes& attributes, const std::string& where);

// Whether the operation itself has an effect besides computing its results. Its blocks may have effects in any case.
bool is_effect(const Operation& operation);

// Read-only access to definitions. The first lookup registers the definitions of all files in src/core/ops/.
MPSGRAPH_API const OperationDefinition& definition_of(Kind kind);
MPSGRAPH_API std::vector<const OperationDefinition*> all_definitions();  // all definitions, grouped by family

// Registers all or some of the operations of a family. A Family object is the last statement of a file in
// src/core/ops/:
//
//   const Family pooling_family("pooling", [] { define(...); });
using Family = Registration<OperationDefinition>;
// Registers an operation, whose name must be new. May only be called from a function passed to Family, which sets the
// operation's family.
void define(OperationDefinition definition);
// States what callers see of an operation that has just been defined: its parameters, dtypes, and documentation. May
// only be called from a function passed to Family.
void describe(Kind kind, std::string_view parameters, DTypeClass dtypes, std::string documentation);

}  // namespace mpsgraph
